"""`podium upload` to an S3 server: killed in the middle and started again; nothing is half there, and all arrives."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from finished import described
from podium import files
from podium.data.transfer.upload import PART
from podium.package import archive, layout
from services.s3_service import BUCKET, Store

PARTS = 6


@pytest.fixture
def archived(tmp_path: Path, work_root) -> Path:
    """A config whose archive was made large: six parts of random bytes, with a receipt that is theirs."""
    config = work_root(tmp_path / "work")
    described(config)
    layout.pack(config)
    archive.archive(config)
    path = archive.archive_file(config)
    path.write_bytes(random.Random(7).randbytes(PARTS * PART - 5))
    receipt = archive.receipt_file(config)
    files.write_json(receipt, {**files.read_json(receipt), "sha256": files.hash_file(path)})
    return config.path


def limited(config: Path, megabytes_per_second: float | None) -> Path:
    value = yaml.safe_load(config.read_text())
    value["data"]["transfer"] = {"megabytes_per_second": megabytes_per_second} if megabytes_per_second else {}
    config.write_text(yaml.safe_dump(value))
    return config


def command(config: Path) -> list[str]:
    return [sys.executable, "-m", "podium", "upload", "--json", "--to", f"s3://{BUCKET}/here", "--config", str(config)]


def test_an_upload_that_is_killed_goes_on_where_it_was(store: Store, archived: Path):
    running = subprocess.Popen(command(limited(archived, 20)), env=store.environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (arrived := store.parts()) and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.05)
    running.kill()
    running.wait()
    assert 0 < arrived < PARTS, "it was cut in the middle"
    assert store.names() == [], "nothing is to be seen before it is whole"

    done = subprocess.run(
        command(limited(archived, None)), env=store.environment, capture_output=True, text=True, check=True
    )
    sent = json.loads(done.stdout)["files"]
    names = [item["to"].rpartition("/")[2] for item in sent]
    assert sorted(names) == ["receipt.json", "tests.tar.gz", "tests.tar.gz.sha1", "tests.tar.gz.sha256"]
    for item in sent:
        body = store.client.get_object(Bucket=BUCKET, Key=item["to"].removeprefix(f"s3://{BUCKET}/"))["Body"].read()
        assert hashlib.sha256(body).hexdigest() == item["sha256"]
    assert store.parts() == 0, "no upload is left open"
