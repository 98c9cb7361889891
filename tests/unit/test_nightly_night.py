"""A night and the verb: names of nights, runs that fail, a full disk, the clock; marks, imports, the index."""

from __future__ import annotations

import datetime
import json
import os
import shutil

import pytest

from nights import record
from podium import cli, files, plan
from podium import config as configuration
from podium.errors import BadEnvironment, BadInput
from podium.nightly import history, night
from support import SHARED, first_plan

NIGHTLY = {"results": [{"system": "host", "benchmark": "resnet", "runs": 2}]}
PUBLISHED = SHARED / "data" / "published" / "fixtures"


def nightly(config, *words: str) -> int:
    return cli.main(["nightly", *words[:1], "--config", str(config.path), *words[1:]])


def a_night(config, name: str, *words: str) -> int:
    return cli.main(["nightly", "--config", str(config.path), "--night", name, *words])


def records(config):
    root = history.folder(config)
    return [history.read(root / "history" / path) for path in history.paths(root)]


# The clock


@pytest.mark.parametrize(
    ("known", "name", "warned"),
    [
        ([], "2026-11-30", False),
        (["2026-11-29"], "2026-11-30", False),
        (["2026-11-29", "2026-11-30"], "2026-11-30", False),
        (["2026-12-24"], "2026-12-24.2", True),
        (["2026-12-24", "2026-12-24.9", "2026-12-24.10"], "2026-12-24.11", True),
    ],
)
def test_a_night_comes_after_the_newest_known_whatever_the_clock_says(known, name, warned):
    found, warning = night.tonight(known, datetime.date(2026, 11, 30))
    assert (found, bool(warning)) == (name, warned)


# Runs


def test_a_night_to_the_target_and_what_its_records_hold(prepared, built, capsys):
    config = built(prepared(nightly=NIGHTLY))
    assert a_night(config, "2026-11-30", "--json", "--junit", str(config.root / "junit.xml")) == 0
    told = json.loads(capsys.readouterr().out)
    assert {item["word"] for item in told["series"]} == {"no data"}
    both = records(config)
    assert [one.outcome for one in both] == ["converged", "converged"]
    assert both[0].values.keys() >= {"minutes", "to_target", "init"}
    facts = history.environment(history.folder(config), both[0].environment)
    assert facts["image"] == files.read_json(plan.image_file(config, first_plan(config)))["reference"]
    assert facts["kernel.release"] and facts["disk.type"]
    assert "<testsuite name=" in (config.root / "junit.xml").read_text()
    assert (config.root / "reports" / "nightly.html").exists()
    assert not (config.root / "runs").exists(), "a submission knows nothing of nights"


def test_runs_that_fail_are_records_and_status_3(prepared, built, capsys):
    config = built(prepared("silent", nightly=NIGHTLY))
    assert a_night(config, "2026-11-30") == 3
    assert "run 1 of 2: it failed, see nights/2026-11-30/runs/host/resnet/0" in capsys.readouterr().out
    assert [one.outcome for one in records(config)] == ["failed", "failed"]


def test_without_an_image_the_night_says_so(prepared, capsys):
    config = prepared(nightly=NIGHTLY)
    assert a_night(config, "2026-11-30") == 3
    assert "no image is locked" in capsys.readouterr().out


def test_a_run_cut_by_minutes_is_cut_and_not_failed(prepared, built, write_config):
    changes = {"nightly": {"results": [{"system": "host", "benchmark": "resnet", "runs": 1, "minutes": 0.05}]}}
    config = built(prepared("slow", **changes))
    assert a_night(config, "2026-11-30") == 0
    (one,) = records(config)
    assert (one.config, one.outcome) == ("slow-0.05-minutes", "cut")


def test_a_disk_that_is_full_during_the_night_costs_neither_verdict_nor_history(prepared, built, monkeypatch, capsys):
    config = built(prepared(nightly=NIGHTLY))
    assert a_night(config, "2026-11-29") == 0
    write = history.write

    def full(*_):
        raise BadEnvironment("cannot write", "free space", os.strerror(28), "df -h")

    monkeypatch.setattr(history, "write", full)
    capsys.readouterr()
    assert a_night(config, "2026-11-30", "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["night"] == "2026-11-30" and len(told["series"]) >= 3, "judged from memory"
    assert sum("its record is not in the history" in what for what in told["missing"]) == 2
    assert len(records(config)) == 2
    monkeypatch.setattr(history, "write", write)
    assert a_night(config, "2026-11-30") == 0, "started again, it writes what is missing and runs nothing"
    assert len(records(config)) == 4
    assert len(list((config.root / "nightly/nights/2026-11-30/runs/host/resnet").glob("*/run.json"))) == 2


def test_a_night_that_is_cut_otherwise_when_it_goes_on_runs_anew(prepared, built, write_config):
    """Of two runs in the history one was cut at 32 samples, one at 64: they must not pass for the same."""
    for samples in (32, 64):
        one = {"system": "host", "benchmark": "resnet", "runs": 1, "samples": samples}
        config = built(prepared("steps", nightly={"results": [one]}))
        a_night(config, "2026-11-30")
    found = {one.config: one.steps["count"] for one in records(config)}
    assert found == {"steps-32-samples": 1, "steps-64-samples": 2}


def test_a_config_without_nights_is_refused(prepared):
    config = prepared()
    assert a_night(config, "2026-11-30") == 2
    with pytest.raises(BadInput, match="says nothing of nights"):
        night.check(config)


def test_samples_and_minutes_together_are_refused(write_config):
    both = {"results": [{"system": "host", "benchmark": "resnet", "samples": 1, "minutes": 1}]}
    with pytest.raises(BadInput, match="nightly.results"):
        configuration.load(write_config(nightly=both))


# The verb


def test_show_of_nothing_says_what_to_do(prepared, capsys):
    assert nightly(prepared(nightly=NIGHTLY), "show") == 0
    assert "podium nightly runs one" in capsys.readouterr().out


def test_marks_are_added_and_wrong_ones_refused(prepared, capsys):
    config = prepared(nightly=NIGHTLY)
    assert nightly(config, "mark", "2026-11-30", "level", "new cooling", "--system", "host") == 0
    assert nightly(config, "mark", "2026-11-30", "renamed", "new name", "--was", "old", "--system", "host") == 0
    for words in (
        ("2026-11-30", "renamed", "x"),
        ("2026-11-30", "void", "x", "--was", "old"),
        ("tomorrow", "void", "x"),
    ):
        assert nightly(config, "mark", *words) == 2
    marks, _ = history.marks(history.folder(config))
    assert [(mark.kind, mark.was) for mark in marks] == [("level", None), ("renamed", "old")]


def test_the_index_names_damaged_records_with_status_1(prepared, capsys):
    config = prepared(nightly=NIGHTLY)
    path = history.write(history.folder(config), record("2026-11-30", 0, 0.25), {})
    assert nightly(config, "index") == 0
    path.write_text("{")
    assert nightly(config, "index", "--rebuild") == 1
    assert "damaged" in capsys.readouterr().out


def test_own_submission_is_imported_once(prepared, built, capsys):
    from podium.runs.run import run

    config = built(prepared(nightly=NIGHTLY))
    run(config, first_plan(config), 0)
    assert nightly(config, "import") == 0
    before = records(config)
    assert [(one.outcome, one.config, one.system) for one in before] == [("converged", "good", "host")]
    assert nightly(config, "import") == 0
    assert records(config) == before


@pytest.mark.skipif(not PUBLISHED.exists(), reason="no published logs beside the checkout")
def test_published_logs_are_imported_and_judged(prepared, capsys):
    config = prepared(nightly=NIGHTLY)
    tree = PUBLISHED / "v3.0" / "NVIDIA"
    assert nightly(config, "import", str(tree)) == 0
    found = records(config)
    assert len(found) == len(list(tree.glob("results/*/*/result_*.txt")))
    assert {one.config for one in found} == {"published"}
    assert all(("minutes" in one.values) == (one.outcome == "converged") for one in found)
    assert sum(one.outcome == "converged" for one in found) >= 3
    assert nightly(config, "show") == 0
    assert nightly(config, "page") == 0


def test_a_log_without_a_start_is_passed_over_with_the_reason(prepared, capsys, tmp_path):
    config = prepared(nightly=NIGHTLY)
    folder = tmp_path / "me" / "results" / "host" / "resnet"
    folder.mkdir(parents=True)
    (tmp_path / "me" / "systems").mkdir()
    (folder / "result_0.txt").write_text("no log\n")
    assert nightly(config, "import", str(tmp_path / "me")) == 1
    assert "no run_start" in capsys.readouterr().out
    shutil.rmtree(folder)
    assert nightly(config, "import", str(tmp_path / "nowhere")) == 2
