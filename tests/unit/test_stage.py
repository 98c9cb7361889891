"""Staging: what arrives on another disk or in S3 is what the manifest says, and what was cut goes on."""

from __future__ import annotations

import random

import pytest
from moto.s3.models import s3_backends as moto_backends
from moto.server import ThreadedMotoServer

from podium import cli, manifest, plan
from podium import config as configuration
from podium.data import fetch, stage
from podium.data.transfer import Again, s3, segments, upload
from podium.errors import BadInput, Findings

SEVERAL_PARTS = random.Random(2).randbytes(upload.PART + 5000)


@pytest.fixture
def prepared(write_config):
    """A config whose data set lies prepared: one file of two parts, one small, one empty, in two folders."""
    config = configuration.load(write_config(data={"sets": {"imagenet": {"source": "demo", "layout": "recordio"}}}))
    folder = plan.layout_folder(config, config.dataset("imagenet"))
    (folder / "train").mkdir(parents=True)
    (folder / "train/large.rec").write_bytes(SEVERAL_PARTS)
    (folder / "small.idx").write_bytes(b"1\t0\n")
    (folder / "empty").write_bytes(b"")
    manifest.write(folder, manifest.of_folder(folder, counts={"train": 1}, made_from="x"))
    return config, config.dataset("imagenet"), folder


@pytest.fixture
def bucket(monkeypatch):
    """s3://bucket on a server of this process; its client."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    s3.client.cache_clear()
    moto_backends.reset()
    s3.client().create_bucket(Bucket="bucket")
    yield s3.client()
    s3.client.cache_clear()
    server.stop()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(segments.Line, "pause", lambda *_: None)


def objects(client):
    return {item["Key"]: item["Size"] for item in client.list_objects_v2(Bucket="bucket").get("Contents", ())}


def count(monkeypatch, client, call):
    """Count the calls of one operation."""
    made, whole = [], getattr(client, call)
    monkeypatch.setattr(client, call, lambda **arguments: made.append(arguments) or whole(**arguments))
    return made


# To a folder


def test_a_folder_gets_the_tree_of_the_work_root(prepared, tmp_path, write_config):
    config, dataset, folder = prepared
    place = stage.stage(config, dataset, "recordio", str(tmp_path / "node"))
    assert place == str(tmp_path / "node/imagenet/recordio")
    assert manifest.read(tmp_path / "node/imagenet/recordio") == manifest.read(folder)
    data = {"root": str(tmp_path / "node"), "sets": {"imagenet": {"source": "demo", "layout": "recordio"}}}
    there = configuration.load(write_config("there", data=data))
    assert manifest.differences(plan.layout_folder(there, there.dataset("imagenet")), manifest.read(folder)) == []


def test_what_is_there_is_not_copied_again_and_what_differs_is_mended(prepared, tmp_path, monkeypatch):
    config, dataset, _ = prepared
    stage.stage(config, dataset, "recordio", str(tmp_path))
    copied, whole = [], segments.bring
    monkeypatch.setattr(segments, "bring", lambda address, *rest: copied.append(address) or whole(address, *rest))
    stage.stage(config, dataset, "recordio", str(tmp_path))
    assert copied == []
    (tmp_path / "imagenet/recordio/small.idx").write_bytes(b"1\t1\n")
    stage.stage(config, dataset, "recordio", str(tmp_path))
    assert [address.rpartition("/")[2] for address in copied] == ["small.idx"]


def test_a_damaged_source_and_a_stray_file_are_told(prepared, tmp_path):
    config, dataset, folder = prepared
    stage.stage(config, dataset, "recordio", str(tmp_path / "a"))
    (tmp_path / "a/imagenet/recordio/notes.txt").write_text("mine")
    with pytest.raises(Findings, match="is not what the manifest") as error:
        stage.stage(config, dataset, "recordio", str(tmp_path / "a"))
    assert "notes.txt: not in the manifest" in error.value.found
    (folder / "small.idx").write_bytes(b"1\t1\n")
    with pytest.raises(BadInput, match="no source gives small.idx") as error:
        stage.stage(config, dataset, "recordio", str(tmp_path / "b"))
    assert "the source is damaged" in error.value.next
    assert not (tmp_path / "b/imagenet/recordio/manifest.json").exists()


def test_what_was_not_prepared_cannot_be_staged(write_config, tmp_path, capsys):
    assert cli.main(["stage", "imagenet", "--to", str(tmp_path), "--config", str(write_config())]) == 2
    assert "no manifest" in capsys.readouterr().err


# To S3


def test_a_bucket_gets_the_tree_and_can_be_fetched_from(prepared, bucket, write_config):
    config, dataset, folder = prepared
    assert stage.stage(config, dataset, "recordio", "s3://bucket/some/") == "s3://bucket/some/imagenet/recordio"
    base = "some/imagenet/recordio"
    assert objects(bucket).keys() == {
        f"{base}/{name}" for name in ("train/large.rec", "small.idx", "empty", "manifest.json")
    }
    data = {
        "root": str(folder.parent / "there"),
        "sets": {"imagenet": {"source": f"s3://bucket/{base}", "layout": "recordio"}},
    }
    there = configuration.load(write_config("there", data=data))
    assert fetch.fetch(there, there.dataset("imagenet")).sha256 == manifest.read(folder).sha256


def test_it_goes_on_with_the_parts_that_arrived(prepared, bucket, monkeypatch):
    config, dataset, _ = prepared
    whole = bucket.upload_part

    def fail_second(**arguments):
        if arguments["PartNumber"] == 2:
            raise Again("cut")
        return whole(**arguments)

    monkeypatch.setattr(bucket, "upload_part", fail_second)
    with pytest.raises(BadInput, match="does not take"):
        stage.stage(config, dataset, "recordio", "s3://bucket")
    assert "imagenet/recordio/manifest.json" not in objects(bucket)
    monkeypatch.setattr(bucket, "upload_part", whole)
    sent = count(monkeypatch, bucket, "upload_part")
    stage.stage(config, dataset, "recordio", "s3://bucket")
    assert [arguments["PartNumber"] for arguments in sent] == [2]


def test_a_part_of_another_file_is_sent_again(prepared, bucket, monkeypatch):
    config, dataset, _ = prepared
    key = "imagenet/recordio/train/large.rec"
    left = bucket.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
    bucket.upload_part(Bucket="bucket", Key=key, UploadId=left, PartNumber=1, Body=bytes(upload.PART))
    sent = count(monkeypatch, bucket, "upload_part")
    stage.stage(config, dataset, "recordio", "s3://bucket")
    assert sorted(arguments["PartNumber"] for arguments in sent) == [1, 2]


def test_what_is_there_is_not_sent_again_but_read_and_hashed(prepared, bucket, monkeypatch):
    config, dataset, _ = prepared
    stage.stage(config, dataset, "recordio", "s3://bucket")
    sent = count(monkeypatch, bucket, "upload_part") + count(monkeypatch, bucket, "put_object")
    read = count(monkeypatch, bucket, "get_object")
    stage.stage(config, dataset, "recordio", "s3://bucket")
    assert [arguments["Key"] for arguments in sent] == []
    assert {arguments["Key"].rpartition("/")[2] for arguments in read} == {"large.rec", "small.idx"}


def test_the_far_end_is_read_back(prepared, bucket):
    """An object with the right size and the right mark but other content, and one that does not belong."""
    config, dataset, folder = prepared
    entry = next(entry for entry in manifest.read(folder).files if entry.path == "small.idx")
    where = {"Bucket": "bucket", "Key": "imagenet/recordio/small.idx"}
    bucket.put_object(**where, Body=b"1\t9\n", Metadata={"sha256": entry.sha256})
    with pytest.raises(Findings, match="1 problems") as error:
        stage.stage(config, dataset, "recordio", "s3://bucket")
    assert f"small.idx: sha256 {entry.sha256} expected" in error.value.found
    stage.stage(config, dataset, "recordio", "s3://bucket")
    assert bucket.get_object(**where)["Body"].read() == b"1\t0\n"
    bucket.put_object(Bucket="bucket", Key="imagenet/recordio/notes.txt", Body=b"mine")
    with pytest.raises(Findings) as error:
        stage.stage(config, dataset, "recordio", "s3://bucket")
    assert "notes.txt: not in the manifest" in error.value.found


def test_a_bucket_that_is_not_there_is_said(prepared, bucket):
    config, dataset, _ = prepared
    with pytest.raises(BadInput, match="does not take") as error:
        stage.stage(config, dataset, "recordio", "s3://none/x")
    assert "NoSuchBucket" in error.value.found or "404" in error.value.found


def test_an_object_that_changes_on_resume_is_never_half_of_each(bucket, tmp_path, monkeypatch):
    """S3 is asked for the object with the tag that it had; what comes after is the new one, whole."""
    bucket.put_object(Bucket="bucket", Key="x", Body=SEVERAL_PARTS)
    remote = s3.look("s3://bucket/x")
    bucket.put_object(Bucket="bucket", Key="x", Body=SEVERAL_PARTS[::-1])
    with pytest.raises(s3.Changed):
        list(s3.read("s3://bucket/x", remote, 5, 10))
    assert b"".join(s3.read("s3://bucket/x", s3.look("s3://bucket/x"), 5, 10)) == SEVERAL_PARTS[::-1][5:10]


def test_public_buckets_are_read_without_keys(bucket, monkeypatch):
    bucket.put_object(Bucket="bucket", Key="x", Body=b"abc", ACL="public-read")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    s3.client.cache_clear()
    assert b"".join(s3.read("s3://bucket/x", s3.look("s3://bucket/x"), 0, 3)) == b"abc"
    with pytest.raises(s3.Refused, match="404"):
        s3.look("s3://bucket/none")
