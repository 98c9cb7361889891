"""ImageNet against MXNet 1.9.1's im2rec.py and TensorFlow's imagenet_to_gcs.py; expected.json says how they ran."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from podium.data import imagenet
from podium.data.formats import example, tfrecord
from podium.data.job import Job
from podium.files import hash_file, walk

GOLDEN = Path(__file__).parents[2].parent / "shared" / "data" / "goldens" / "imagenet"
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason=f"no oracle data at {GOLDEN}")


@pytest.fixture(scope="module")
def expected() -> dict:
    return json.loads((GOLDEN / "expected.json").read_text())


def extracted(to: Path, foldered: bool) -> Path:
    """The case's tars as folders: train/<wnid>/, and val/ flat with its labels or val/<wnid>/ without."""
    with tarfile.open(GOLDEN / "train.tar") as outer:
        for inner in outer:
            with tarfile.open(fileobj=outer.extractfile(inner)) as images:
                images.extractall(to / "train" / inner.name.removesuffix(".tar"), filter="data")
    with tarfile.open(GOLDEN / "val.tar") as images:
        images.extractall(to / "val", filter="data")
    labels = (GOLDEN / "synset_labels.txt").read_text()
    if foldered:
        for path, wnid in zip(sorted((to / "val").iterdir()), labels.split(), strict=True):
            (to / "val" / wnid).mkdir(exist_ok=True)
            path.rename(to / "val" / wnid / path.name)
    else:
        (to / "synset_labels.txt").write_text(labels)
    return to


@pytest.fixture(scope="module", params=["tars, 1 worker", "tars, 3 workers", "flat, 2 workers", "foldered, 1 worker"])
def prepare(request, tmp_path_factory):
    """Prepare the case in one of its forms, and hold the result against its invariants."""
    form, workers = request.param.split(", ")
    source = GOLDEN if form == "tars" else extracted(tmp_path_factory.mktemp(form), form == "foldered")

    def run(layout: str, **params) -> Path:
        to = tmp_path_factory.mktemp(layout)
        counts = imagenet.prepare(Job(source, layout, to, params, int(workers[0])))
        assert imagenet.invariants(to, layout, counts) == []
        return to

    return run


def test_recordio_is_that_of_im2rec(prepare, expected):
    to = prepare("recordio")
    found = {str(name): {"bytes": (to / name).stat().st_size, "sha256": hash_file(to / name)} for name in walk(to)}
    assert found == expected["mxnet_recordio"]["files"]
    for path in (GOLDEN / "expected").glob("*.lst"):
        assert (to / path.name).read_text() == path.read_text()


def test_tfrecords_are_those_of_imagenet_to_gcs(prepare, expected):
    oracle = expected["tf_tfrecord"]
    to = prepare("tfrecord", shards=oracle["shards"])
    shards = [shard for split in oracle["records"].values() for shard in split]
    assert [str(name) for name in walk(to)] == sorted(shard["name"] for shard in shards)
    for shard in shards:
        assert (to / shard["name"]).stat().st_size == shard["bytes"]
        records = list(tfrecord.read(to / shard["name"]))
        assert [summary(record) for record in records] == [
            {key: record[key] for key in summary(records[0])} for record in shard["records"]
        ]


def summary(record: bytes) -> dict:
    """A record in the words of expected.json; the re-encoded images too are equal byte for byte."""
    found = {name.removeprefix("image/"): value for name, (value,) in example.decode(record).items()}
    return {
        "filename": found["filename"].decode(),
        "label": found["class/label"],
        "synset": found["class/synset"].decode(),
        "height": found["height"],
        "width": found["width"],
        "channels": found["channels"],
        "colorspace": found["colorspace"].decode(),
        "format": found["format"].decode(),
        "encoded_bytes": len(found["encoded"]),
        "encoded_sha256": hashlib.sha256(found["encoded"]).hexdigest(),
        "record_bytes": len(record),
    }
