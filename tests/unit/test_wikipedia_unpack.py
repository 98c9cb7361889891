"""The published archive of the text gives what the unpacked text gives, and a bad one is refused."""

from __future__ import annotations

import tarfile

import pytest

from podium import files
from podium.data import wikipedia
from podium.data.demo import wikipedia as demo
from podium.data.job import Job
from podium.data.wikipedia import source, unpack
from podium.errors import BadInput

PARAMS = {"max_seq_length": 40, "max_predictions_per_seq": 6, "dupe_factor": 1, "eval_samples": 40, "shards": 1}


@pytest.fixture
def archived(tmp_path):
    """The demo's text, as it is and as an archive like MLCommons' with its list of md5s; returns both folders."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    demo.make(plain)
    names = sorted(path.name for path in plain.iterdir() if path.name != "vocab.txt")
    with tarfile.open(packed / source.ARCHIVE, "w:gz") as tar:
        for name in names:
            tar.add(plain / name, f"results4/{name}")
    (packed / "vocab.txt").write_bytes((plain / "vocab.txt").read_bytes())
    lines = [f"{files.hash_file(plain / name, 'md5')}  ./results4/{name}\n" for name in names]
    (packed / unpack.MD5S).write_text("".join(lines))
    return plain, packed


def test_the_archive_gives_the_same_bytes_as_the_text(archived, tmp_path):
    hashes = []
    for folder in archived:
        to = tmp_path / f"{folder.name}-hdf5"
        to.mkdir()
        wikipedia.prepare(Job(folder, "hdf5", to, PARAMS))
        hashes.append({str(path): files.hash_file(to / path) for path in files.walk(to)})
    assert hashes[0] == hashes[1]


def test_a_torn_archive_and_another_text_are_refused(archived, tmp_path):
    _, packed = archived
    archive = packed / source.ARCHIVE
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="is torn"):
        unpack.unpack(packed, tmp_path / "half")
    archive.write_bytes(whole)
    listed = packed / unpack.MD5S
    listed.write_text("0" * 32 + listed.read_text()[32:])
    with pytest.raises(BadInput, match="is not the published text"):
        unpack.unpack(packed, tmp_path / "other")


def test_nothing_is_written_outside(tmp_path):
    (tmp_path / "evil").write_text("one sentence\n")
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / source.ARCHIVE, "w:gz") as tar:
        tar.add(tmp_path / "evil", "../../part-00000-of-00500")
    unpack.unpack(packed, tmp_path / "a" / "to")
    assert [path.name for path in (tmp_path / "a").rglob("part-*")] == ["part-00000-of-00500"]
    assert not list(tmp_path.glob("part-*"))
