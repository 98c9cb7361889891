"""Runs on AWS Batch: containers of a real Docker daemon, jobs and storage of a local server."""

from __future__ import annotations

import os
import subprocess
import sys

import boto3
import pytest

from podium import cli, files, plan
from podium.runs import launchers, ledger
from podium.runs.launchers import aws_batch
from services.aws import BUCKET, QUEUE
from services.slurm_cluster import wait_until
from support import SCRIPTED, first_plan


@pytest.fixture
def account(aws, prepared, built):
    def make(course: str):
        system = {"nodes": 1, "gpus_per_node": 0, "launcher": "aws_batch", "aws_batch": aws}
        result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": course}
        config = built(prepared(course, systems={"host": system}, results=[result]))
        return config, plan.result_folder(config, first_plan(config))

    return make


def words(config, number: int = 0) -> list[str]:
    place = ["--system", "host", "--benchmark", "resnet", "--config", str(config.path)]
    return ["run", *place, "--attempt", str(number)]


def started(config, number: int = 0):
    command = [sys.executable, "-m", "podium", *words(config, number)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}, stderr=subprocess.DEVNULL)


def jobs() -> list[dict]:
    batch = boto3.client("batch")
    statuses = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
    return [job for status in statuses for job in batch.list_jobs(jobQueue=QUEUE, jobStatus=status)["jobSummaryList"]]


def under_way(folder, docker) -> str:
    """Wait until the container of run 0 runs; returns its name."""
    wait_until(lambda: (folder / "0" / "job.json").exists() and bool(stored(folder)), 60, "it is submitted")
    name = files.read_json(folder / "0" / "job.json")["name"]
    wait_until(lambda: name in docker("ps", "--format", "{{.Names}}"), 60, "its container runs")
    return docker("ps", "--filter", f"name={name}", "--format", "{{.Names}}").strip()


def stored(folder) -> str:
    return files.read_json(folder / "0" / "job.json")["id"]


def test_a_run_fetches_its_data_and_brings_its_log_back(account, capfd):
    config, folder = account("good")
    assert cli.main(words(config)) == 0
    record = files.read_json(folder / "0" / "run.json")
    assert (record["outcome"], record["launcher"], record["exit_status"]) == ("converged", "aws_batch", 0)
    assert len(record["nodes"]) == 1
    assert "at most 288.00 USD" in capfd.readouterr().err, "24 hours, the limit of a run"
    kept = [item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="podium/")["Contents"]]
    assert [key for key in kept if key.endswith("/train.rec")] and [
        key for key in kept if key.endswith("result.tar.gz")
    ]
    assert cli.main(words(config)) == 0
    assert len(ledger.attempts(folder)) == 1


def test_a_run_that_fails_is_told_by_its_log(account):
    config, folder = account("silent")
    assert cli.main(words(config)) == 3
    record = files.read_json(folder / "0" / "run.json")
    assert (record["outcome"], record["cause"], record["exit_status"]) == ("failed", "no run_stop in the log", 7)


def test_a_killed_head_process_finds_its_job_again(account, docker):
    config, folder = account("brief")
    head = started(config)
    under_way(folder, docker)
    head.kill()
    head.wait()
    before = len(jobs())
    assert cli.main(words(config)) == 0
    assert len(jobs()) == before, "submitted twice"


def test_a_job_whose_id_could_not_be_stored_is_found_by_its_name(account, monkeypatch):
    config, folder = account("good")
    store = aws_batch.store

    def dies(*words, **more):
        if words[2] is not None:
            raise SystemExit
        store(*words, **more)

    monkeypatch.setattr(aws_batch, "store", dies)
    with pytest.raises(SystemExit):
        cli.main(words(config))
    before = len(jobs())
    monkeypatch.setattr(aws_batch, "store", store)
    assert cli.main(words(config)) == 0
    assert len(jobs()) == before
    assert [item.outcome for item in ledger.attempts(folder)] == ["converged"]


def test_an_instance_that_is_taken_away_is_an_attempt_that_failed(account, docker):
    """What a spot interruption leaves: a container that was killed, and nothing in the store."""
    config, folder = account("slow")
    head = started(config)
    docker("kill", under_way(folder, docker))
    assert head.wait(timeout=60) == 3
    record = files.read_json(folder / "0" / "run.json")
    assert (record["outcome"], record["exit_status"]) == ("failed", None)
    assert cli.main(["cancel", *words(config)[1:5], "--config", str(config.path)]) == 0, "nothing goes on"


def test_podium_cancel_ends_the_job(account, docker):
    config, folder = account("slow")
    head = started(config)
    name = under_way(folder, docker)
    assert cli.main(["cancel", *words(config)[1:5], "--config", str(config.path)]) == 0
    assert head.wait(timeout=60) == 3
    assert ledger.attempts(folder)[0].outcome == "cancelled"
    assert name not in docker("ps", "--format", "{{.Names}}")


def test_a_queue_that_is_not_there_is_bad_input(account, aws, monkeypatch, capsys):
    monkeypatch.setitem(aws, "queue", "nowhere")
    config, folder = account("good")
    assert cli.main(words(config)) == 2
    assert "nowhere" in capsys.readouterr().err
    assert files.read_json(folder / "0" / launchers.JOB)["id"] is None
