"""Published results run again from end to end without Docker or Slurm, in three styles, with planted slow-downs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import published
from podium import cli, files
from support import snakemake

HOME = Path("work", "reproduce", "acme", "one", "resnet")


@pytest.mark.parametrize("style", ["docker", "wrapper", "plain"])
def test_a_result_is_reproduced_in_its_own_style(tmp_path, capsys, style):
    status = cli.main(published.words(tmp_path, style))
    answer = capsys.readouterr()
    assert status == 0, answer.err
    found = json.loads(answer.out)
    assert found["verdict"] == "reproduced"
    assert Path(found["page"]).read_text().startswith("<!doctype html>")
    records = [files.read_json(tmp_path / HOME / str(number) / "run.json") for number in range(2)]
    assert len({record["seed"] for record in records}) == 2
    for number, record in enumerate(records):
        log = (tmp_path / HOME / str(number) / "result.txt").read_text()
        assert f'"key": "seed", "value": {record["seed"]}' in log
        assert '"value": "host"' in log  # the identity is ours
        assert "\r" not in log
    assert "cache_clear" in log or style == "plain"


@pytest.mark.parametrize("slower", [0.05, 0.2])
def test_planted_slow_downs_are_told(tmp_path, capsys, slower):
    words = published.words(tmp_path, "docker", 600 * (1 + slower), runs=3)
    path = tmp_path / "podium.yaml"
    path.write_text(path.read_text().replace("runs: 3", "margin: 0.03\n  runs: 3"))
    status = cli.main(words)
    answer = capsys.readouterr()
    found = json.loads(answer.out)
    assert (status, found["verdict"]) == (1, "slower"), answer.err
    assert found["percent"] == pytest.approx(100 * slower, abs=0.5)


def test_a_killed_reproduction_goes_on_where_it_was_and_runs_nothing_twice(tmp_path):
    words = published.words(tmp_path, "plain")
    env = next((tmp_path / "round").rglob("one.env"))
    env.write_text(env.read_text() + "SLEEP=3\n")
    command = [sys.executable, "-m", "podium", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    job = tmp_path / HOME / "0" / "job.json"
    deadline = time.monotonic() + 60
    while not job.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = files.read_json(job)["id"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert files.read_json(job)["id"] == before
    assert [path.name for path in sorted((tmp_path / HOME).glob("*.failed*"))] == []
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert files.read_json(job)["id"] == before


def test_a_run_that_leaves_no_log_is_told_with_its_last_words_and_kept(tmp_path, capsys):
    words = published.words(tmp_path, "plain")
    script = next((tmp_path / "round").rglob("run_and_time.sh"))
    script.write_text("echo the machine is gone >&2\nexit 7\n")
    assert cli.main(words) == 3
    error = capsys.readouterr().err
    assert "left no log of a run" in error
    assert "the machine is gone" in error
    assert (tmp_path / HOME / "0.failed1" / "drive.json").exists()


def test_logs_that_are_there_are_compared_without_running_anything(tmp_path, capsys):
    words = published.words(tmp_path, "docker")
    mine = published.results(tmp_path / "mine", 700)
    status = cli.main([*words, "--mine", str(mine)])
    assert (status, json.loads(capsys.readouterr().out)["verdict"]) == (1, "slower")
    assert not (tmp_path / HOME / "0").exists()


def test_the_workflow_reproduces_what_the_config_lists_and_a_slower_result_is_an_answer(tmp_path):
    published.words(tmp_path, "plain", 720)
    path = tmp_path / "podium.yaml"
    value = yaml.safe_load(path.read_text())
    wanted = {"source": str(tmp_path / "round"), "submitter": "acme", "system": "one", "benchmark": "resnet"}
    value["reproduce"] |= {"results": [wanted | {"round": published.ROUND}], "agreed": True}
    path.write_text(yaml.safe_dump(value))
    snakemake(path, "--", "reproduce")
    assert files.read_json(tmp_path / HOME / "comparison.json")["verdict"] == "slower"
