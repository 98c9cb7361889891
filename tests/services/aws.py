"""An AWS of this host's own: moto's server, whose Batch runs its jobs as containers of a real Docker daemon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from services.docker_service import Docker
from services.service import absent
from support import SCRIPTED

IMAGE, QUEUE, BUCKET = "podium-tests/scripted", "podium-queue", "podium-store"


@pytest.fixture(scope="session")
def scripted_image(docker: Docker, base: str) -> Iterator[str]:
    """The scripted implementation as an image."""
    with tempfile.TemporaryDirectory(prefix="podium-scripted-") as place:
        text = f"FROM {base}\nCOPY . /workspace\nWORKDIR /workspace\n"
        docker("build", "--network", "none", "--tag", IMAGE, "--file", _written(place, text), SCRIPTED)
    yield IMAGE
    docker("image", "rm", "--force", IMAGE)


def _written(place: str, text: str) -> Path:
    path = Path(place) / "Dockerfile"
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def aws_server(docker: Docker, scripted_image: str) -> Iterator[dict[str, str]]:
    """The server with a queue and a bucket; gives the environment of its clients."""
    try:
        import docker as sdk  # noqa: F401
    except ImportError:
        absent("aws", "moto's Batch needs the Python package docker")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    own = {
        "MOTO_DOCKER_NETWORK_MODE": "host",
        "DOCKER_HOST": docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip(),
    }
    with tempfile.TemporaryFile() as log:
        words = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(words, env=os.environ | own, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                assert server.poll() is None and time.monotonic() < deadline, "moto does not serve"
                time.sleep(0.1)
            _furnish(client)
            yield client
        finally:
            server.terminate()
            server.wait(timeout=20)


def _furnish(environment: dict[str, str]) -> None:
    names = {"endpoint_url": environment["AWS_ENDPOINT_URL"], "region_name": environment["AWS_DEFAULT_REGION"]}
    names |= {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    boto3.client("s3", **names).create_bucket(Bucket=BUCKET)
    role = boto3.client("iam", **names).create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    batch = boto3.client("batch", **names)
    batch.create_compute_environment(computeEnvironmentName="here", type="UNMANAGED", state="ENABLED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": "here"}]
    batch.create_job_queue(jobQueueName=QUEUE, state="ENABLED", priority=1, computeEnvironmentOrder=order)


@pytest.fixture
def aws(aws_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """This process is a client of it; gives `aws_batch` of a config."""
    for name, value in aws_server.items():
        monkeypatch.setenv(name, value)
    return {
        "queue": QUEUE,
        "store": f"s3://{BUCKET}/podium",
        "image": IMAGE,
        "poll_seconds": 0.5,
        "price_per_hour": 12.0,
    }
