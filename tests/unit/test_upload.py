"""`podium upload` to an S3 of this process: what goes, what a cut leaves, what is compared, what is never printed."""

from __future__ import annotations

import random

import pytest
from moto.s3.models import s3_backends as moto_backends
from moto.server import ThreadedMotoServer

from finished import described
from podium import cli, files
from podium.data.transfer import line, s3
from podium.data.transfer import upload as transfer
from podium.errors import BadInput, Findings
from podium.package import archive, layout, upload

KEY = "a-key-id-of-nobody"
SECRET = "a-secret-of-nobody"


@pytest.fixture
def archived(tmp_path, work_root):
    config = work_root(tmp_path / "work")
    described(config)
    layout.pack(config)
    archive.archive(config)
    return config


@pytest.fixture
def bucket(monkeypatch):
    for name, value in {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(line.Line, "pause", lambda *_: None)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    s3.client.cache_clear()
    moto_backends.reset()
    s3.client().create_bucket(Bucket="bucket")
    yield s3.client()
    s3.client.cache_clear()
    server.stop()


def keys(client):
    return [item["Key"] for item in client.list_objects_v2(Bucket="bucket").get("Contents", ())]


NAMES = ["receipt.json", "tests.tar.gz", "tests.tar.gz.sha1", "tests.tar.gz.sha256"]


def test_the_archive_its_hashes_and_the_receipt_arrive(archived, bucket, capsys):
    words = ["upload", "--to", "s3://bucket/2026/", "--config", str(archived.path)]
    assert cli.main(words) == 0
    assert keys(bucket) == [f"2026/{name}" for name in NAMES]
    there = bucket.get_object(Bucket="bucket", Key="2026/tests.tar.gz")["Body"].read()
    assert there == archive.archive_file(archived).read_bytes()
    told = "".join(capsys.readouterr())
    assert "hashes right" in told and KEY not in told and SECRET not in told


def test_a_dry_run_lists_and_sends_nothing(archived, bucket, capsys):
    assert cli.main(["upload", "--dry-run", "--to", "s3://bucket/x", "--config", str(archived.path)]) == 0
    told = capsys.readouterr().out
    assert all(f"s3://bucket/x/{name}" in told for name in NAMES)
    assert keys(bucket) == []


def test_an_encrypted_archive_goes_instead_of_the_plain_one(archived, bucket):
    archived.path.write_text(archived.path.read_text() + "package: {encrypt: pbkdf2, upload: s3://bucket}\n")
    password = archived.path.with_name("password")
    password.write_text("correct horse\n")
    words = ["--config", str(archived.path)]
    assert cli.main(["archive", "--password-file", str(password), *words]) == 0
    assert cli.main(["upload", *words]) == 0
    sealed = "mlperf_submission_tests"
    assert keys(bucket) == [f"{sealed}.sha1", f"{sealed}.tar.gz", "receipt.json"]


def large(config) -> None:
    """An archive of several parts, with its receipt."""
    path, receipt = archive.archive_file(config), files.read_json(archive.receipt_file(config))
    path.write_bytes(random.Random(3).randbytes(3 * transfer.PART + 17))
    files.write_json(archive.receipt_file(config), {**receipt, "sha256": files.hash_file(path)})


def test_an_upload_that_is_cut_goes_on_with_the_parts_that_arrived(archived, bucket, monkeypatch):
    large(archived)
    whole, sent = bucket.upload_part, []

    def cut(**arguments):
        if len(sent) == 2:
            raise ConnectionResetError("cut")
        sent.append(arguments["PartNumber"])
        return whole(**arguments)

    monkeypatch.setattr(bucket, "upload_part", cut)
    with pytest.raises(BadInput, match="does not take the archive"):
        upload.upload(archived, "s3://bucket/x")
    assert keys(bucket) == [], "nothing half-written is to be seen"
    before = list(sent)
    sent.clear()
    monkeypatch.setattr(
        bucket, "upload_part", lambda **arguments: sent.append(arguments["PartNumber"]) or whole(**arguments)
    )
    upload.upload(archived, "s3://bucket/x")
    assert sorted(before + sent) == [1, 2, 3, 4], "no part twice"
    assert keys(bucket) == [f"x/{name}" for name in NAMES]


def test_what_arrives_as_something_else_is_found(archived, bucket, monkeypatch):
    whole = bucket.put_object
    monkeypatch.setattr(
        bucket,
        "put_object",
        lambda **a: whole(**(a | ({"Body": a["Body"][:-1] + b"?"} if a["Key"].endswith("gz") else {}))),
    )
    with pytest.raises(Findings) as error:
        upload.upload(archived, "s3://bucket")
    assert "tests.tar.gz: sha256" in error.value.found


def test_no_bucket_no_archive_and_another_archive_are_refused(archived, bucket, capsys):
    with pytest.raises(BadInput, match="does not take"):
        upload.upload(archived, "s3://none")
    archive.archive_file(archived).write_bytes(b"another")
    with pytest.raises(BadInput, match="is not the archive of its receipt"):
        upload.upload(archived, "s3://bucket")
    archive.receipt_file(archived).unlink()
    with pytest.raises(BadInput, match="nothing is archived"):
        upload.upload(archived, "s3://bucket")
    assert cli.main(["upload", "--config", str(archived.path)]) == 2
    assert "package.upload" in capsys.readouterr().err
