"""The workflow: what a dry run plans, and one small journey through real rules, with a scripted implementation."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from support import REPOSITORY, config_text, planned, snakemake


@pytest.fixture
def work(tmp_path):
    """A config in a work root of its own; returns the config's path."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config_text(tmp_path / "work")))
    return path


def test_the_demo_plans_all_required_runs(tmp_path):
    path = tmp_path / "demo.yaml"
    value = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    path.write_text(yaml.safe_dump({**value, "root": str(tmp_path / "work")}))
    jobs = planned(snakemake(path, "--dry-run"))
    assert jobs["run_attempt"] == 65
    assert jobs["check_result"] == jobs["build_image"] == jobs["prepare_dataset"] == 4
    assert not (tmp_path / "work").exists(), "a dry run makes nothing"


def test_a_set_that_is_read_as_it_is_fetched_is_fetched_and_verified_but_not_prepared(tmp_path):
    source, path = tmp_path / "source", tmp_path / "config.yaml"
    source.mkdir()
    for split in ("train", "validation"):
        (source / f"{split}-00000-of-00001.parquet").write_bytes(b"PAR1 and so on")
    value = config_text(tmp_path / "work")
    value["data"]["sets"]["govreport"] = {"source": f"file:{source}", "layout": "raw"}
    path.write_text(yaml.safe_dump(value))
    folder = tmp_path / "work" / "data" / "govreport"
    told = snakemake(path, "--", str(folder / "raw.verify.json"))
    assert planned(told) == {"fetch_dataset": 1, "verify_dataset": 1, "total": 2}
    assert (folder / "raw" / "manifest.json").exists()


def test_a_misspelt_key_stops_the_workflow_before_anything_starts(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config_text(tmp_path / "work") | {"sistems": {}}))
    assert "did you mean 'systems'" in snakemake(path, "--dry-run", code=1)


def test_overrides_that_the_commands_would_not_see_are_refused(work):
    assert "more than one config" in snakemake(work, "--dry-run", "--config", "root=elsewhere", code=1)


def test_a_journey_and_what_is_made_again_after_a_loss(work):
    root = work.parent / "work"
    snakemake(work)
    receipt = json.loads((root / "archive" / "receipt.json").read_text())
    assert receipt["label"].startswith("demo")
    assert "Nothing to be done" in snakemake(work)

    lost = root / "runs" / "host" / "resnet" / "3"
    shutil.rmtree(lost)
    jobs = planned(snakemake(work, "--dry-run"))
    assert jobs.pop("total") == sum(jobs.values())
    assert jobs == {
        "run_attempt": 1,
        "check_result": 1,
        "score_results": 1,
        "pack_submission": 1,
        "inspect_submission": 1,
        "archive_submission": 1,
        "write_report": 1,
        "all": 1,
    }
    snakemake(work)
    verdict = json.loads((root / "verdicts" / "host" / "resnet.json").read_text())
    assert (sorted(verdict["counted"]), verdict["verdict"]) == ([0, 1, 2, 4, 5], "compliant")
    assert "its folder was removed" in verdict["notes"][0]
    assert "Nothing to be done" in snakemake(work)


def test_a_run_that_misses_its_target_stops_packing_and_loses_nothing(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config_text(tmp_path / "work", "never")))
    told = snakemake(path, code=1)
    assert "cannot be packed" in told
    assert "5 runs did not converge" in told
    root = tmp_path / "work"
    assert len(list((root / "runs" / "host" / "resnet").glob("*/run.json"))) == 5
    assert json.loads((root / "verdicts" / "host" / "resnet.json").read_text())["verdict"] == "not compliant"
    assert "invalid" in (root / "reports" / "index.html").read_text()


def test_tonight_is_planned_with_what_it_lacks(tmp_path):
    path = tmp_path / "config.yaml"
    nightly = {"results": [{"system": "host", "benchmark": "resnet", "runs": 2}]}
    path.write_text(yaml.safe_dump(config_text(tmp_path / "work", nightly=nightly)))
    jobs = planned(snakemake(path, "--dry-run", "nightly"))
    assert jobs["spend_night"] == jobs["build_image"] == jobs["verify_dataset"] == 1
    assert "run_attempt" not in jobs
    snakemake(path, "--", str(tmp_path / "work" / "nightly" / "nights" / "2026-11-30" / "night.json"))
    told = json.loads((tmp_path / "work" / "nightly" / "nights" / "2026-11-30" / "night.json").read_text())
    assert told["night"] == "2026-11-30" and told["missing"] == []
