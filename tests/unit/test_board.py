"""`podium status`: the word for each result, what is busy, the clock, a read-only work root, what to do next."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys

import pytest

from finished import described
from podium import cli, files, manifest, plan
from podium import config as configuration
from podium.package import archive, layout
from podium.report import board, clock, status
from podium.runs import launchers, ledger
from support import first_plan

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def root(tmp_path, work_root):
    """A work root of five runs, all compliant and described."""
    config = work_root(tmp_path / "work")
    described(config)
    return config


def only(config) -> board.Row:
    return board.board(config, NOW).rows[0]


def with_deadline(config, moment: str):
    config.path.write_text(config.path.read_text() + f'package: {{deadline: "{moment}"}}\n')
    return configuration.load(config.path)


def test_a_result_with_nothing_open_is_ready_and_the_next_step_is_the_archive(root, tmp_path):
    row = only(root)
    assert (row.word, row.done, row.counted, row.needed, row.why, row.next) == ("ready", 5, 5, 5, (), "")
    assert row.data and row.image and row.hours == 0


def test_nothing_at_all_is_short(write_config):
    config = configuration.load(write_config())
    row = only(config)
    assert (row.word, row.done, row.needed) == ("short", 0, 5)
    assert "0 of 5 runs" in row.why[0]
    assert row.next.startswith("snakemake")
    assert {"the data's manifest is not there", "the image's lock is not there"} <= set(row.why)


def test_runs_without_a_verdict_are_short_and_the_next_step_checks_them(root):
    plan.verdict_file(root, first_plan(root)).unlink()
    row = only(root)
    assert row.word == "short" and row.next.startswith("podium check")


def test_a_verdict_of_other_attempts_does_not_count(root):
    path = plan.verdict_file(root, first_plan(root))
    verdict = files.read_json(path)
    files.write_json(path, {**verdict, "runs": verdict["runs"][:3]})
    assert only(root).word == "short"


def test_what_the_rules_refuse_is_invalid(tmp_path, work_root):
    row = only(work_root(tmp_path / "work", **{"name": "never"}))
    assert row.word == "invalid" and row.not_converged == 5
    assert any("did not converge" in text for text in row.why)


def test_open_fields_are_paperwork(root):
    described(root, cooling="")
    row = only(root)
    assert (row.word, row.open) == ("paperwork", ("cooling",))
    assert "systems.host.description" in row.next


def test_lint_of_the_packed_tree_is_paperwork(root):
    layout.pack(root)
    archive.archive(root)
    path = archive.inspection_file(root)
    place = "tests/benchmarks/resnet/implementations/scripted/Dockerfile"
    files.write_json(path, {**files.read_json(path), "lint": [f"image-without-digest: {place}:1: expected, found"]})
    row = only(root)
    assert (row.word, row.lint) == ("paperwork", 1) and "podium lint" in row.next


def test_runs_that_go_on_are_shown_with_their_jobs(root):
    folder = plan.result_folder(root, first_plan(root))
    fingerprint = ledger.attempts(folder)[0].fingerprint
    for number, (launcher, id) in enumerate(
        [("slurm", "17/podium-a"), ("slurm", "18/podium-b"), ("local", "host:1:2")], 5
    ):
        attempt = ledger.launch(folder, number, fingerprint, 5)
        job = {"launcher": launcher, "name": "x", "id": id, "submitted": files.now()}
        files.write_json(folder / str(attempt.number) / launchers.JOB, job)
    states = {"17/podium-a": {"phase": "running"}, "18/podium-b": {"phase": "pending"}}
    files.write_json(root.root / "runs" / ".states-slurm.json", {"time": 0, "states": states})
    row = only(root)
    assert (row.running, row.queued) == (("17/podium-a", "host:1:2"), ("18/podium-b",))
    told = status.table(root, board.board(root, NOW))
    assert "2+1" in told and "17/podium-a runs" in told and "18/podium-b waits" in told


def test_the_first_runs_give_a_forecast_and_the_hours_of_the_rest(tmp_path, work_root):
    row = only(work_root(tmp_path / "work", count=2))
    assert (row.word, row.done) == ("short", 2)
    assert row.forecast["score_minutes"]["middle"] > 0
    assert 0 < row.hours < 0.1, "three runs of seconds"
    assert "~" in status.table(
        configuration.load(tmp_path / "work.yaml"), board.board(configuration.load(tmp_path / "work.yaml"))
    )


@pytest.mark.parametrize(
    ("deadline", "fits", "words"),
    [
        ("2026-05-01T13:00+00:00", True, "they fit"),
        ("2026-05-01T12:00:00.001+00:00", False, "do NOT fit"),
        ("2026-05-01T11:00+00:00", False, "the deadline passed 60 min ago"),
    ],
)
def test_the_clock_says_whether_the_missing_runs_fit(tmp_path, work_root, deadline, fits, words):
    found = board.board(with_deadline(work_root(tmp_path / "work", count=2), deadline), NOW)
    assert found.fits is fits
    assert words in status.clock(found)


def test_runs_that_went_on_at_the_same_time_halve_the_clock():
    class Item:
        def __init__(self, started, stopped):
            self.record = {"started": started, "stopped": stopped}

    hours = [f"2026-05-01T{hour:02}:00:00+00:00" for hour in range(5)]
    assert clock.at_a_time([Item(hours[0], hours[2]), Item(hours[1], hours[3]), Item(hours[3], hours[4])]) == 2


@pytest.mark.parametrize("deadline", ["tomorrow", "2026-05-01T12:00"])
def test_a_deadline_that_is_no_moment_is_refused(write_config, deadline, capsys):
    path = write_config(package={"deadline": deadline})
    assert cli.main(["status", "--config", str(path)]) == 2
    assert "with its zone" in capsys.readouterr().err


def test_nothing_is_written_and_a_read_only_work_root_will_do(root, capsys):
    before = manifest.of_folder(root.root)
    folders = [path for path in root.root.rglob("*") if path.is_dir() and not path.is_symlink()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        # root may write anywhere: as another user where we are root.
        as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        words = [*as_nobody, sys.executable, "-m", "podium", "status", "--json", "--config", str(root.path)]
        for parent in (root.path.parent, *root.path.parents):
            if parent.is_relative_to("/tmp") and parent != parent.parent and parent.stat().st_uid == os.geteuid():
                parent.chmod(parent.stat().st_mode | 0o055)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["word"] == "ready"
    assert manifest.of_folder(root.root) == before


def test_watching_shows_it_again_until_it_is_stopped(root, monkeypatch, capsys):
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", sleep)
    assert cli.main(["status", "--watch", "5", "--config", str(root.path)]) == 130
    assert looks == [5.0] * 3
    assert capsys.readouterr().out.count("ready") >= 3


def test_json_has_what_the_table_has(root, capsys):
    assert cli.main(["status", "--json", "--config", str(root.path)]) == 0
    value = json.loads(capsys.readouterr().out)
    assert {"rows", "made", "inspection", "hours_needed", "hours_left", "fits", "next"} == value.keys()
    assert value["rows"][0]["benchmark"] == "resnet"


def test_an_inspection_of_an_older_tree_is_said_to_be_old(root):
    layout.pack(root)
    archive.archive(root)
    assert board.board(root).inspection.startswith("compliant with 3.1.0")
    described(root, cooling="Liquid")
    layout.pack(root)
    assert board.board(root).inspection == "packed anew since it was inspected"
