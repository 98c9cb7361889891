"""C4: shards of text into merged parts and a validation set; what is refused, and what the checks find."""

import gzip
import json
import random
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from podium.data import c4
from podium.data.again import Again, Sample
from podium.data.c4 import merge, shards
from podium.data.job import Job
from podium.data.prepare import prepare as whole
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

PARAMS = {"validation_documents": 11}  # of 8 shards with 3 to 5 documents: the first two and a part of the third
SHARD = "c4-train.00800-of-01024.json.gz"


def documents(number: int) -> list[bytes]:
    """A few documents, other ones for each number."""
    draw = random.Random(number)
    texts = [f"{number}.{line} ü " + "word " * draw.randrange(200) for line in range(3 + number % 3)]
    return [json.dumps({"text": text, "url": "x"}, ensure_ascii=False).encode() + b"\n" for text in texts]


def train(first: int, after: int, take: int | None = None) -> bytes:
    return b"".join(chain.from_iterable(documents(number)[:take] for number in range(first, after)))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("c4")
    for number in range(768, 1024):
        (folder / f"c4-train.{number:05}-of-01024.json.gz").write_bytes(gzip.compress(b"".join(documents(number))))
    for number in range(8):
        path = folder / f"c4-validation.{number:05}-of-00008.json.gz"
        path.write_bytes(gzip.compress(b"".join(documents(2000 + number))))
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture(scope="module")
def ready(made, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("ready")
    return folder, prepare(made, folder)


@pytest.fixture
def prepared(ready, tmp_path) -> tuple[Path, dict]:
    """A copy of what was prepared that a test may spoil."""
    return shutil.copytree(ready[0], tmp_path / "to"), ready[1]


def prepare(made: Path, to: Path, workers: int = 1, **params) -> dict:
    to.mkdir(exist_ok=True)
    return c4.prepare(Job(made, "merged", to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


def text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def test_parts_are_the_shards_one_behind_the_other(made, prepared):
    folder, counts = prepared
    assert counts == {"train_documents": {"6": 511, "7": 512}, "validation_documents": 11}
    for part, first in ((6, 768), (7, 896)):
        names = [made / f"c4-train.{number:05}-of-01024.json.gz" for number in range(first, first + 128)]
        path = folder / f"c4-train.en_{part}.json.gz"
        assert path.read_bytes() == subprocess.run(["cat", *names], stdout=subprocess.PIPE, check=True).stdout
        assert text(path) == train(first, first + 128)
    assert sorted(content(folder)) == [
        "c4-train.en_6.json.gz",
        "c4-train.en_7.json.gz",
        "c4-validation-11-samples.en.json.gz",
    ]
    assert c4.invariants(folder, "merged", counts) == []


def test_the_validation_set_is_the_first_documents_in_their_order(prepared):
    assert text(prepared[0] / "c4-validation-11-samples.en.json.gz") == b"".join(
        train(2000, 2008).splitlines(keepends=True)[:11]
    )


def test_the_bytes_do_not_depend_on_the_workers(made, prepared, tmp_path):
    assert prepare(made, tmp_path / "three", workers=3) == prepared[1]
    assert content(tmp_path / "three") == content(prepared[0])


def test_shards_that_are_done_are_not_read_again(made, prepared, tmp_path, monkeypatch):
    done, place = [], merge.place

    def stop_after_ten(*args) -> int:
        if len(done) == 10:
            raise KeyboardInterrupt
        done.append(args)
        return place(*args)

    monkeypatch.setattr(merge, "place", stop_after_ten)
    with pytest.raises(KeyboardInterrupt):
        prepare(made, tmp_path / "again")
    monkeypatch.undo()
    with (tmp_path / "again" / "c4-train.en_6.json.gz").open("ab") as file:
        file.write(bytes(1_000_000))  # what was half written
    read, every = [], shards.documents
    monkeypatch.setattr(shards, "documents", lambda path: read.append(path.name) or every(path))
    assert prepare(made, tmp_path / "again") == prepared[1]
    assert len([name for name in read if "train" in name]) == 246
    assert content(tmp_path / "again") == content(prepared[0])


@pytest.mark.parametrize("workers", [1, 2])
def test_take_takes_the_first_documents_of_each_shard(made, tmp_path, workers):
    content = whole("c4", made, "merged", tmp_path / "to", {"take": 2}, workers)
    assert content.counts == {"train_documents": {"6": 256, "7": 256}, "validation_documents": 2, "subset": True}
    assert text(tmp_path / "to" / "c4-train.en_7.json.gz") == train(896, 1024, take=2)
    assert again(made, tmp_path / "to", dict(content.counts), take=2) == Again(514, [])


def test_other_parts_can_be_merged(made, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(128):
        (source / f"c4-train.{number:05}-of-01024.json.gz").write_bytes(gzip.compress(b"".join(documents(number))))
    for path in made.glob("c4-validation.*"):
        shutil.copy(path, source)
    assert prepare(source, tmp_path / "to", parts=[0])["train_documents"] == {"0": 511}
    assert text(tmp_path / "to" / "c4-train.en_0.json.gz") == train(0, 128)


def put(name: str, data: bytes):
    return lambda folder: (folder / name).write_bytes(data)


def changed(name: str, change):
    return lambda folder: (folder / name).write_bytes(change(bytearray((folder / name).read_bytes())))


def flipped(place: int):
    def flip(data: bytearray) -> bytearray:
        data[place] ^= 1
        return data

    return flip


def packed(text: bytes):
    return put(SHARD, gzip.compress(text))


GOOD = documents(1)[0]
BAD = {
    "a shard is missing": (lambda folder: (folder / SHARD).unlink(), f"1 missing, such as {SHARD}"),
    "a shard is cut": (changed(SHARD, lambda data: data[:-20]), "end-of-stream marker"),
    "a checksum is wrong": (changed(SHARD, flipped(-8)), "CRC check failed"),
    "a length is wrong": (changed(SHARD, flipped(-4)), "Incorrect length"),
    "text behind the end": (changed(SHARD, lambda data: data + b"<html>404</html>"), "Not a gzipped file"),
    "an error page": (put(SHARD, b"<html>404</html>"), "Not a gzipped file"),
    "nothing": (put(SHARD, b""), "none"),
    "no documents": (packed(b""), "none"),
    "no JSON": (packed(GOOD + b'{"text": "a\n'), "no JSON (Invalid control character"),
    "an empty line": (packed(GOOD + b"\n" + GOOD), "in line 2: b'\\n'"),
    "no UTF-8": (packed(b'{"text": "\xff"}\n'), "no JSON ('utf-8' codec"),
    "much too deep": (packed(b"[" * 100_000 + b"\n"), "no JSON (maximum recursion depth"),
    "no object": (packed(b'["text"]\n'), "no text in line 1"),
    "no text": (packed(GOOD + b'{"url": "x"}\n'), "no text in line 2"),
    "text of another kind": (packed(b'{"text": 3}\n'), "no text in line 1"),
    "no end of the last line": (packed(GOOD + GOOD[:-1]), "no end of line in line 2"),
}


@pytest.mark.parametrize("spoil, found", BAD.values(), ids=BAD)
def test_a_bad_source_is_refused(spoiled, tmp_path, spoil, found):
    spoil(spoiled)
    with pytest.raises(BadInput, match="c4-train.00800|source is not complete") as error:
        prepare(spoiled, tmp_path / "to")
    assert found in error.value.found
    assert error.value.next == "podium fetch c4"


def test_a_line_without_an_end_is_not_held(spoiled, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LONGEST", 5000)
    packed(b'{"text": "' + b"a" * 9000 + b'"}\n')(spoiled)
    with pytest.raises(BadInput, match=SHARD) as error:
        prepare(spoiled, tmp_path / "to")
    assert error.value.found.startswith("no end of line in line 1")


def test_a_validation_shard_is_read_to_its_checksum(spoiled, tmp_path):
    changed("c4-validation.00002-of-00008.json.gz", flipped(-8))(spoiled)
    with pytest.raises(BadInput, match="c4-validation.00002-of-00008"):
        prepare(spoiled, tmp_path / "to")
    assert not list((tmp_path / "to").glob("c4-validation*"))


def test_a_short_validation_set_is_refused(made, tmp_path):
    with pytest.raises(BadInput, match="short validation set") as error:
        prepare(made, tmp_path / "to", validation_documents=91205)
    assert (error.value.expected, error.value.found) == ("91205 documents", "32")
    assert not list((tmp_path / "to").glob("c4-validation*"))


@pytest.mark.parametrize(
    "name, value",
    [("validation_documents", 0), ("validation_documents", "9"), ("validation_documents", True)]
    + [("parts", value) for value in (6, [], [8], [7, 6], [6, 6], ["6"], [True])],
)
def test_a_bad_parameter_is_refused(made, tmp_path, name, value):
    with pytest.raises(BadInput, match=name):
        prepare(made, tmp_path / "to", **{name: value})


def test_a_disk_that_is_too_small_is_noticed_first(made, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(made, tmp_path / "to")


TRAIN = "c4-train.en_7.json.gz"
WRONG = {
    "a cut file": (changed(TRAIN, lambda data: data[:-1]), "found Compressed file ended"),
    "a changed byte": (changed(TRAIN, flipped(-8)), "found CRC check failed"),
    "another line": (changed(TRAIN, lambda data: data + gzip.compress(b"{}\n")), "no text in line 513"),
    "a document more": (changed(TRAIN, lambda data: data + gzip.compress(GOOD)), "expected 512 documents, found 513"),
    "no file": (lambda folder: (folder / TRAIN).unlink(), "expected 512 documents, found no file"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(prepared, spoil, expected):
    folder, counts = prepared
    spoil(folder)
    (problem,) = c4.invariants(folder, "merged", counts)
    assert problem.startswith(f"{TRAIN}: ")
    assert expected in problem


def again(made: Path, folder: Path, counts: dict, **params) -> Again:
    return c4.rederive(Sample(made, folder, "merged", Manifest((), counts, params), random.Random(0)))


def test_documents_made_again_are_those_that_were_merged(made, prepared):
    found = again(made, *prepared, **PARAMS)
    assert found.problems == []
    assert 11 + 4 * 3 <= found.items <= 11 + 4 * 5  # two shards of each part


def stored(folder: Path, word: bytes) -> None:
    """Pack every shard anew without compressing it, with another word in its documents: its size stays the same."""
    for path in folder.iterdir():
        path.write_bytes(gzip.compress(text(path).replace(b"word", word), 0))


def test_what_differs_from_the_source_is_found(spoiled, tmp_path):
    stored(spoiled, b"word")
    counts = prepare(spoiled, tmp_path / "to")
    assert again(spoiled, tmp_path / "to", counts).problems == []
    stored(spoiled, b"vord")
    problems = again(spoiled, tmp_path / "to", counts).problems
    assert [problem.partition(":")[0] for problem in problems] == [
        *["c4-train.en_6.json.gz"] * 2,
        *["c4-train.en_7.json.gz"] * 2,
        "c4-validation-11-samples.en.json.gz",
    ]
    assert all(": expected document " in problem and problem.endswith(", found another") for problem in problems)
