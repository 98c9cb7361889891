"""A vendor's implementation of one of MLPerf's benchmarks, and a benchmark of one's own, from config to archive."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import yaml

from podium import cli
from support import REPOSITORY, SCRIPTED, planned, snakemake

EXAMPLES = REPOSITORY / "config" / "examples"


def example(name: str, tmp_path: Path) -> dict:
    """An example of ours, with a work root of the test's own."""
    value = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return {**value, "root": str(tmp_path / "work")}


def written(tmp_path: Path, value: dict) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


def test_a_vendors_implementation_with_data_as_they_are_goes_from_one_line_to_an_archive(tmp_path):
    value = example("vendor", tmp_path)
    source = tmp_path / "openimages"
    (source / "tar").mkdir(parents=True)
    (source / "tar" / "shard.tar").write_bytes(b"in whatever form")
    value["data"]["sets"]["openimages"]["source"] = f"file:{source}"
    value["results"][0] |= {"implementation": str(SCRIPTED), "config": "vendor"}
    value["systems"]["1xnode-8xgpu"] |= {"gpus_per_node": 0, "threads": 1}  # the scripted runs need none
    path = written(tmp_path, value)
    jobs = planned(snakemake(path, "--dry-run"))
    assert (jobs["run_attempt"], jobs["prepare_dataset"], jobs["verify_dataset"]) == (5, 1, 1)
    assert "fetch_dataset" not in jobs, "data that are read as they are would be copied"
    snakemake(path)

    root = tmp_path / "work"
    verdict = json.loads((root / "verdicts" / "1xnode-8xgpu" / "retinanet.json").read_text())
    assert (verdict["verdict"], verdict["official"]["answer"], verdict["round"]) == ("compliant", "pass", "5.0.0")
    results = root / "submission" / "YourOrganisation" / "results" / "1xnode-8xgpu" / "retinanet"
    assert sorted(log.name for log in results.iterdir()) == [f"result_{number}.txt" for number in range(5)]
    assert [entry.name for entry in source.rglob("*")] == ["tar", "shard.tar"], "the source was changed"
    assert not (root / "data" / "openimages" / "raw").exists()
    assert "Nothing to be done" in snakemake(path)


def test_a_benchmark_of_ones_own_is_run_judged_and_marked_and_never_enters_a_submission(tmp_path, capsys):
    path = written(tmp_path, example("inhouse", tmp_path))
    assert planned(snakemake(path, "--dry-run"))["run_attempt"] == 5
    snakemake(path)

    root = tmp_path / "work"
    verdict = json.loads((root / "verdicts" / "this-host" / "spiral.json").read_text())
    assert (verdict["verdict"], verdict["round"]) == ("compliant", "in-house rules")
    assert verdict["official"] == {"passed": None, "answer": "none", "messages": []}
    times = sorted(run["minutes"] for run in verdict["runs"])
    assert verdict["score"]["minutes"] == sum(times[1:4]) / 3, "the olympic mean of five runs"
    assert not (root / "submission").exists()
    tree = root / "inhouse" / "YourTeam"
    mark = "no MLPerf results"
    for text in (tree / "README.md", root / "reports" / "index.html", root / "archive" / "receipt.json"):
        assert mark in text.read_text(), f"{text} does not say what the results are"
        assert "MLPerf Training" not in text.read_text(), f"{text} bears a name that is not its own"
    with tarfile.open(root / "archive" / "YourTeam-inhouse.tar.gz") as packed:
        assert "YourTeam/results/this-host/spiral/result_4.txt" in packed.getnames()
    assert cli.main(["score", "--config", str(path)]) == 0
    assert mark in capsys.readouterr().out
    assert cli.main(["check", str(tree), "--round", "3.1.0"]) == 1, "the official tools know no such benchmark"
    assert cli.main(["status", "--config", str(path)]) == 0
    assert "Nothing to be done" in snakemake(path)
