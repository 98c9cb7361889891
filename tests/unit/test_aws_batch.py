"""What AWS Batch is asked, held against the model of its API, and what its answers are taken for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from botocore.stub import ANY, Stubber

from podium import files
from podium.config import System
from podium.errors import BadEnvironment, BadInput
from podium.runs.launchers import ENDED, PENDING, RUNNING, UNKNOWN, Job, aws_batch, aws_requests, incontainer
from podium.runs.launchers.aws_requests import Options

OPTIONS = Options(
    queue="mlperf",
    store="s3://bucket/podium/",
    image="1.dkr.ecr.eu-west-1.amazonaws.com/resnet@sha256:0",
    vcpus=192,
    memory_mib=2_000_000,
    shared_memory_mib=64_000,
    efa=4,
    data_path="/fsx/imagenet",
    tags={"project": "mlperf"},
    price_per_hour=98.32,
)


@pytest.fixture
def stubbed(monkeypatch):
    """A launcher whose client of Batch answers as told, and checks every request against the API's model."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    client = boto3.client("batch", region_name="eu-west-1")
    storage = boto3.client("s3", region_name="eu-west-1")
    monkeypatch.setattr(aws_batch.AwsBatch, "_client", lambda self, name: {"batch": client, "s3": storage}[name])
    with Stubber(client) as stub:
        yield stub


def job(folder: Path, **more) -> Job:
    return Job("podium-resnet-0-abc", folder, lambda cores, gpus: ["bash", "RANK=@RANK@"], **more)


def test_several_nodes_are_one_multi_node_parallel_job(stubbed, tmp_path):
    wanted = job(tmp_path, nodes=4, gpus=8, tasks=8, minutes=600)
    definition = aws_requests.definition(wanted, OPTIONS)
    [group] = definition["nodeProperties"]["nodeRangeProperties"]
    assert (definition["type"], definition["nodeProperties"]["numNodes"], group["targetNodes"]) == (
        "multinode",
        4,
        "0:3",
    )
    assert {"type": "GPU", "value": "8"} in group["container"]["resourceRequirements"]
    assert len(group["container"]["linuxParameters"]["devices"]) == 4
    assert definition["retryStrategy"] == {"attempts": 1}
    stubbed.add_response(
        "describe_job_definitions", {"jobDefinitions": []}, {"jobDefinitionName": ANY, "status": "ACTIVE"}
    )
    registered = {"jobDefinitionName": "podium", "jobDefinitionArn": "arn:definition", "revision": 1}
    stubbed.add_response("register_job_definition", registered, definition)
    override = {
        "jobName": wanted.name,
        "jobQueue": "mlperf",
        "jobDefinition": "arn:definition",
        "nodeOverrides": ANY,
        "tags": {"project": "mlperf", "podium": wanted.name},
        "propagateTags": True,
    }
    stubbed.add_response("submit_job", {"jobName": wanted.name, "jobId": "id-1"}, override)
    assert aws_batch.AwsBatch(OPTIONS).submit(wanted) == "id-1"
    stored = files.read_json(tmp_path / "job.json")
    assert (stored["id"], stored["at_most_usd"]) == ("id-1", round(98.32 * 4 * 10, 2))
    stubbed.assert_no_pending_responses()


def test_what_a_submission_overrides_is_within_the_limit_of_the_service(tmp_path):
    request = aws_requests.submission(job(tmp_path, nodes=2), OPTIONS, "arn", "u" * 1800, "u" * 1800)
    assert len(json.dumps(request["nodeOverrides"])) < 8192
    assert len(json.dumps(aws_requests.definition(job(tmp_path), OPTIONS))) < 24_000


def test_equal_requests_have_one_definition(tmp_path):
    first, second = (aws_requests.definition(job(tmp_path / name), OPTIONS) for name in "ab")
    other = aws_requests.definition(job(tmp_path, gpus=1), OPTIONS)
    assert first["jobDefinitionName"] == second["jobDefinitionName"] != other["jobDefinitionName"]


@pytest.mark.parametrize(
    ("described", "phase", "cause"),
    [
        ({"status": "RUNNABLE"}, PENDING, ""),
        ({"status": "RUNNING"}, RUNNING, ""),
        ({"status": "SUCCEEDED"}, ENDED, ""),
        ({"status": "FAILED", "statusReason": "Essential container in task exited"}, ENDED, ""),
        ({"status": "FAILED", "statusReason": "Host EC2 (instance i-0) terminated."}, ENDED, "preempted"),
        ({"status": "FAILED", "statusReason": "Job attempt duration exceeded timeout"}, ENDED, "time limit"),
        ({"status": "FAILED", "statusReason": "terminated by podium"}, ENDED, "cancelled"),
        ({"status": "FAILED", "container": {"reason": "OutOfMemoryError: killed"}}, ENDED, "out of memory"),
        ({"status": "FAILED", "container": {"reason": "CannotPullContainerError: x"}}, ENDED, "not started"),
    ],
)
def test_states_mean_what_batch_means_by_them(described, phase, cause):
    state = aws_requests.state(described)
    assert (state.phase, state.cause) == (phase, cause)


def test_two_hundred_jobs_are_two_calls_and_an_unknown_one_is_lost(stubbed):
    ids = [f"id-{number}" for number in range(200)]
    for start in (0, 100):
        some = ids[start : start + 100]
        known = [
            {
                "jobArn": "a",
                "jobName": "n",
                "jobId": id,
                "jobQueue": "q",
                "status": "RUNNING",
                "startedAt": 1,
                "jobDefinition": "d",
            }
            for id in some
            if id != "id-7"
        ]
        stubbed.add_response("describe_jobs", {"jobs": known}, {"jobs": some})
    states = aws_batch.AwsBatch(OPTIONS).states(ids)
    assert states["id-199"].phase == RUNNING and states["id-7"].cause == "lost"


def test_an_outage_is_no_end(stubbed):
    stubbed.add_client_error("describe_jobs", "TooManyRequestsException", http_status_code=429)
    assert aws_batch.AwsBatch(OPTIONS).states(["id-1"])["id-1"].phase == UNKNOWN


def test_a_refusal_and_a_missing_image_are_bad_input(stubbed, tmp_path):
    stubbed.add_client_error("describe_job_definitions", "ClientException", "no such account")
    with pytest.raises(BadInput, match="AWS refuses"):
        aws_batch.AwsBatch(OPTIONS).submit(job(tmp_path))
    with pytest.raises(BadInput, match="no image"):
        aws_batch.AwsBatch(Options("q", "s3://b")).submit(job(tmp_path))
    with pytest.raises(BadInput, match="cannot run on AWS Batch"):
        aws_batch.options(System("x", 1, 0, "aws_batch", "docker", "nvidia", 1, {}, {"queue": "q"}, {}, {}))


def test_no_credentials_are_a_matter_of_the_environment(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    options = Options("q", "s3://b", image="i", region="eu-west-1")
    with pytest.raises(BadEnvironment, match="AWS does not answer"):
        aws_batch.AwsBatch(options).submit(job(tmp_path))


def test_the_tasks_of_two_nodes_know_who_they_are(tmp_path):
    """The program of the container, as each of two nodes of two tasks runs it."""
    told = {}
    for node in "01":
        environment = {
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(tmp_path / node),
            "LOGDIR": str(tmp_path / node / "logs"),
            "PODIUM_TASKS": "2",
            "AWS_BATCH_JOB_NODE_INDEX": node,
            "AWS_BATCH_JOB_NUM_NODES": "2",
            "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.1",
        }
        words = [
            sys.executable,
            incontainer.__file__,
            "sh",
            "-c",
            "echo @RANK@/@WORLD_SIZE@ @LOCAL_RANK@ @MASTER_ADDR@; exit 3",
        ]
        answer = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 3, answer.stderr
        told[node] = sorted(answer.stdout.splitlines())
    assert told == {"0": ["0/4 0 10.0.0.1", "1/4 1 10.0.0.1"], "1": ["2/4 0 10.0.0.1", "3/4 1 10.0.0.1"]}
