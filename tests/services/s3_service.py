"""An S3 server of its own process on this host, for tests in which the client is a process that can be killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

BUCKET = "podium-tests"


@dataclass(frozen=True)
class Store:
    """A client of the server, with an empty bucket, and the environment by which other processes find it."""

    client: Any
    environment: dict[str, str]

    def parts(self) -> int:
        """How many parts of uploads that are not complete have arrived."""
        uploads = self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        pages = [self.client.list_parts(Bucket=BUCKET, Key=item["Key"], UploadId=item["UploadId"]) for item in uploads]
        return sum(len(page.get("Parts", [])) for page in pages)

    def names(self) -> list[str]:
        return [item["Key"] for item in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@pytest.fixture
def store() -> Iterator[Store]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": address, "NO_PROXY": "127.0.0.1"}
    words = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert server.poll() is None and time.monotonic() < deadline, "moto's server does not start"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        client = boto3.client(
            "s3",
            endpoint_url=address,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        yield Store(client, environment)
    finally:
        server.terminate()
        server.wait(timeout=30)
