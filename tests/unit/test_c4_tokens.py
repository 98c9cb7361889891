"""C4 to Megatron's token files: the bytes of another writer, what is refused, and what the checks find.

The texts are made and the tokenizers are trained by the test; the format is written down a second time in tokenized.py.
"""

import builtins
import gzip
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from podium import cli
from podium.data import c4, prepare
from podium.data.again import Sample
from podium.data.c4 import pieces, shards, tokens
from podium.data.formats import megatron
from podium.data.job import Job
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest
from tokenized import TOKENIZERS, pack, texts, written

SHARD = "c4-train.00130-of-01024.json.gz"
TRAIN, VALIDATION = "c4-train.en_1_text_document", "c4-validation-11-samples.en_text_document"


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Path]:
    """Folders with a tokenizer.json."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for name, make in TOKENIZERS.items():
        (folder / name).mkdir()
        make().save(str(folder / name / "tokenizer.json"))
    return {name: folder / name for name in TOKENIZERS}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("c4")
    for number in range(128, 256):
        (folder / f"c4-train.{number:05}-of-01024.json.gz").write_bytes(pack(texts(number)))
    for number in range(8):
        (folder / f"c4-validation.{number:05}-of-00008.json.gz").write_bytes(pack(texts(2000 + number)))
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture(scope="module")
def merged(made, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("merged")
    c4.prepare(Job(made, "merged", folder, {"validation_documents": 11, "parts": [1]}))
    return folder


@pytest.fixture(scope="module")
def ready(made, tokenizers, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("ready")
    return folder, run(made, folder, tokenizers["byte_level"])


@pytest.fixture
def prepared(ready, tmp_path) -> tuple[Path, dict]:
    """A copy of what was prepared that a test may spoil."""
    return shutil.copytree(ready[0], tmp_path / "to"), ready[1]


def parameters(tokenizer: Path, /, **more) -> dict:
    size = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).get_vocab_size()
    return {
        "validation_documents": 11,
        "parts": [1],
        "tokenizer": str(tokenizer),
        "vocabulary": size,
        **more,
    }


def run(source: Path, to: Path, tokenizer: Path, /, workers: int = 1, **more) -> dict:
    to.mkdir(exist_ok=True)
    return c4.prepare(Job(source, "megatron", to, parameters(tokenizer, **more), workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


@pytest.mark.parametrize("name, form", [("byte_level", "H"), ("sentence_pieces", "H"), ("large", "i")])
def test_the_bytes_are_those_of_another_writer(made, tokenizers, tmp_path, name, form):
    counts = run(made, tmp_path, tokenizers[name])
    library = Tokenizer.from_file(str(tokenizers[name] / "tokenizer.json"))
    library.no_truncation()
    every = [text for number in range(128, 256) for text in texts(number)]
    first = [text for number in range(2000, 2008) for text in texts(number)][:11]
    total = {}
    for prefix, those in ((TRAIN, every), (VALIDATION, first)):
        encoded = [library.encode(text, add_special_tokens=False).ids for text in those]
        data, index = written(encoded, form)
        assert (tmp_path / f"{prefix}.bin").read_bytes() == data
        assert (tmp_path / f"{prefix}.idx").read_bytes() == index
        total[prefix] = sum(map(len, encoded))
    assert [] in [library.encode(text, add_special_tokens=False).ids for text in every]
    assert counts == {
        "train_documents": {"1": len(every)},
        "train_tokens": {"1": total[TRAIN]},
        "validation_documents": 11,
        "validation_tokens": total[VALIDATION],
        "vocabulary": library.get_vocab_size(),
        "tokenizer_sha256": hash_file(tokenizers[name] / "tokenizer.json"),
    }
    assert c4.invariants(tmp_path, "megatron", counts) == []
    assert len(content(tmp_path)) == 4


# What tools/preprocess_data.py of NVIDIA/Megatron-LM d98e8a64 makes of these texts by these tokenizers (transformers
# 4.57.1, --tokenizer-hf-no-include-special-tokens): sha256 of .bin and .idx, of the training and of the validation set.
MEGATRON_LM = {
    "byte_level": ["e188d7742fe1da63", "672b5d88720280e4", "1130d8937f27518e", "48dbf5988b9881d4"],
    "sentence_pieces": ["2771c1dda3a22f5c", "ed78b79bac1edae4", "34d31e1aca04c4f4", "fba6ecd675391ce5"],
    "large": ["1b1a1abf74dd5535", "dcfeacd29e7e94f8", "0a83443da84838b2", "5cf64ea123452137"],
}


@pytest.mark.parametrize("name", MEGATRON_LM)
def test_the_bytes_are_those_of_megatron_lm(made, tokenizers, tmp_path, name):
    run(made, tmp_path, tokenizers[name])
    paths = [tmp_path / f"{prefix}.{end}" for prefix in (TRAIN, VALIDATION) for end in ("bin", "idx")]
    assert [hash_file(path)[:16] for path in paths] == MEGATRON_LM[name]


def test_the_bytes_do_not_depend_on_the_workers_or_the_form(made, merged, prepared, tokenizers, tmp_path, monkeypatch):
    folder, counts = prepared
    assert run(made, tmp_path / "three", tokenizers["byte_level"], workers=3) == counts
    assert content(tmp_path / "three") == content(folder)
    assert run(merged, tmp_path / "whole", tokenizers["byte_level"]) == counts
    assert content(tmp_path / "whole") == content(folder)
    monkeypatch.setattr(pieces, "AT_LEAST", 1000)  # as if these members were as large as shards are
    assert run(merged, tmp_path / "cut", tokenizers["byte_level"]) == counts
    assert content(tmp_path / "cut") == content(folder)


def test_a_merged_file_is_cut_behind_members_that_end_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "AT_LEAST", 100)
    those = [pack(texts(number) * 20) for number in range(4)]
    half = gzip.decompress(those[2])
    broken = gzip.compress(half[:30]) + gzip.compress(half[30:])
    path = tmp_path / "c4-train.en_1.json.gz"
    path.write_bytes(those[0] + those[1] + broken + those[3])
    ends = np.cumsum([len(those[0]), len(those[1]), len(broken), len(those[3])]).tolist()
    assert pieces.members(path) == [0, *ends]
    cut = [pieces.Piece(path, start, stop) for start, stop in zip([0, *ends], ends, strict=False)]
    assert [text for piece in cut for text in piece.texts()] == [text for n in range(4) for text in texts(n) * 20]
    monkeypatch.setattr(pieces, "AT_LEAST", ends[0] + 1)
    assert pieces.members(path) == [0, ends[1], ends[3]]


def test_pieces_that_are_done_are_not_tokenized_again(made, ready, tokenizers, tmp_path, monkeypatch):
    done, join = [], tokens._append

    def stop_in_the_middle(data, file, place):
        done.append(data)
        if len(done) == 60:
            file.write(b"half")
            raise KeyboardInterrupt
        join(data, file, place)

    monkeypatch.setattr(tokens, "_append", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "again", tokenizers["byte_level"])
    monkeypatch.undo()
    (tmp_path / "again" / "work" / f"{SHARD}.0.npy").unlink()  # and one that was not
    read, every = [], pieces.shards.read
    monkeypatch.setattr(pieces.shards, "read", lambda path, *span: read.append(path.name) or every(path, *span))
    assert run(made, tmp_path / "again", tokenizers["byte_level"]) == ready[1]
    assert read == [SHARD]
    assert content(tmp_path / "again") == content(ready[0])


def test_another_tokenizer_at_the_same_place_is_another_one(made, tokenizers, tmp_path):
    own = shutil.copytree(tokenizers["byte_level"], tmp_path / "own")
    first = prepare.prepare("c4", made, "megatron", tmp_path / "to", parameters(own, take=1), 1)
    assert prepare.prepare("c4", made, "megatron", tmp_path / "to", parameters(own, take=1), 1) == first
    shutil.copy(tokenizers["sentence_pieces"] / "tokenizer.json", own)
    second = prepare.prepare("c4", made, "megatron", tmp_path / "to", parameters(own, take=1), 1)
    assert second.counts["vocabulary"] != first.counts["vocabulary"]
    with pytest.raises(BadInput, match="is another tokenizer"):
        pinned = parameters(own, take=1, tokenizer_sha256=first.counts["tokenizer_sha256"])
        prepare.prepare("c4", made, "megatron", tmp_path / "to", pinned, 1)


def test_the_command_takes_a_tokenizer(made, tokenizers, tmp_path, capsys):
    params = {name: value for name, value in parameters(tokenizers["byte_level"]).items() if name != "tokenizer"}
    (tmp_path / "params.json").write_text(json.dumps(params))
    line = ["prepare", "c4", "--from", made, "--layout", "megatron", "--to", tmp_path / "to", "--take", 2, "--json"]
    line += ["--params", tmp_path / "params.json", "--tokenizer", tokenizers["byte_level"] / "tokenizer.json"]
    assert cli.main([*map(str, line), "--workers", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["train_documents"] == {"1": 256}


def test_a_subset_of_merged_files_has_their_first_documents(merged, tokenizers, tmp_path):
    counts = run(merged, tmp_path, tokenizers["byte_level"], take=3, validation_documents=3)
    assert (counts["train_documents"], counts["validation_documents"]) == ({"1": 3}, 3)
    sample = Sample(merged, tmp_path, "megatron", manifest(counts, tokenizers["byte_level"], take=3), random.Random(0))
    assert c4.rederive(sample).problems == []


def test_a_source_with_a_lone_surrogate_is_refused(spoiled, tokenizers, tmp_path):
    (spoiled / SHARD).write_bytes(gzip.compress(b'{"text": "a \\ud83d b"}\n'))
    with pytest.raises(BadInput, match=SHARD) as error:
        run(spoiled, tmp_path / "to", tokenizers["byte_level"])
    assert "half of a surrogate pair" in error.value.found


@pytest.mark.parametrize("workers", [1, 2])
def test_a_torn_shard_is_named(spoiled, tokenizers, tmp_path, workers):
    (spoiled / SHARD).write_bytes((spoiled / SHARD).read_bytes()[:-9])
    with pytest.raises(BadInput, match=f"{SHARD} is torn"):
        run(spoiled, tmp_path / "to", tokenizers["byte_level"], workers)


TORN = {
    "cut": lambda data: data[:-9],
    "a wrong checksum": lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
    "an error page behind it": lambda data: data + b"<html>404</html>",
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("spoil", TORN.values(), ids=TORN)
def test_a_torn_merged_file_is_named_before_it_is_tokenized(merged, tokenizers, tmp_path, spoil):
    source = shutil.copytree(merged, tmp_path / "source")
    path = source / "c4-train.en_1.json.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(BadInput, match=r"c4-train.en_1.json.gz is torn"):
        run(source, tmp_path / "to", tokenizers["byte_level"])
    assert not list((tmp_path / "to").rglob("*.bin"))


def test_merged_files_that_are_missing_are_named(merged, tokenizers, tmp_path):
    with pytest.raises(BadInput, match="is not complete") as error:
        run(merged, tmp_path, tokenizers["byte_level"], parts=[1, 2], validation_documents=12)
    assert error.value.expected == "c4-train.en_2.json.gz, c4-validation-12-samples.en.json.gz"


def no_tokenizer(folder: Path) -> dict:
    return {"tokenizer": None}


def only_sentencepiece(folder: Path) -> dict:
    (folder / "tokenizer.model").write_bytes(b"")
    return {"tokenizer": str(folder)}


def no_json(folder: Path) -> dict:
    (folder / "tokenizer.json").write_text("<html>")
    return {"tokenizer": str(folder)}


def with_gaps(folder: Path) -> dict:
    models_tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 7}, "a"))
    models_tokenizer.save(str(folder / "tokenizer.json"))
    return {"tokenizer": str(folder)}


WRONG_TOKENIZERS = {
    "none": (no_tokenizer, "no tokenizer for C4"),
    "nowhere": (lambda folder: {"tokenizer": str(folder / "nowhere" / "tokenizer.json")}, "no tokenizer at"),
    "sentencepiece alone": (only_sentencepiece, "no tokenizer at"),
    "an error page": (no_json, "cannot be read"),
    "gaps": (with_gaps, "has gaps"),
    "one of no benchmark": (lambda folder: {"vocabulary": None}, "is another tokenizer"),
    "another vocabulary": (lambda folder: {"vocabulary": 128_256}, "is another tokenizer"),
    "a vocabulary that is no number": (lambda folder: {"vocabulary": "128256"}, "parameter vocabulary"),
}


@pytest.mark.parametrize("spoil, said", WRONG_TOKENIZERS.values(), ids=WRONG_TOKENIZERS)
def test_a_wrong_tokenizer_is_refused(made, tokenizers, tmp_path, spoil, said):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    with pytest.raises(BadInput, match=said):
        run(made, tmp_path / "to", tokenizers["byte_level"], **spoil(folder))


def test_without_the_library_the_command_that_installs_it_is_named(made, tokenizers, tmp_path, monkeypatch):
    every = builtins.__import__

    def without(name, *args):
        if name == "tokenizers":
            raise ModuleNotFoundError("No module named 'tokenizers'")
        return every(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadEnvironment, match="library of their own") as error:
        c4.prepare(Job(made, "megatron", tmp_path, {"validation_documents": 11, "tokenizer": "x"}))
    assert error.value.next == "make .venv/pins-tokens"


def test_a_target_that_cannot_be_written_is_named(made, tokenizers, tmp_path, monkeypatch):
    real = os.open

    def read_only(path, flags, *args, **more):
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(30, "Read-only file system")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", read_only)  # the way of every temporary file
    with pytest.raises(BadEnvironment, match="cannot write"):
        run(made, tmp_path, tokenizers["byte_level"])


def test_a_disk_that_is_too_small_is_noticed_first(made, tokenizers, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        run(made, tmp_path, tokenizers["byte_level"])


def manifest(counts: dict, tokenizer: Path, **more) -> Manifest:
    return Manifest((), counts, parameters(tokenizer, **more))


@pytest.mark.parametrize("form", ["shards", "merged"])
def test_documents_tokenized_again_are_those_that_are_there(made, merged, prepared, tokenizers, form):
    folder, counts = prepared
    source = {"shards": made, "merged": merged}[form]
    every = Sample(source, folder, "megatron", manifest(counts, tokenizers["byte_level"]), random.Random(0), 1.0)
    found = c4.rederive(every)
    assert (found.items, found.problems) == (counts["train_documents"]["1"] + 11, [])


def test_what_differs_from_the_source_is_found(made, prepared, tokenizers):
    folder, counts = prepared
    index = megatron.read_index(folder / f"{TRAIN}.idx")
    places = index.places(folder / f"{TRAIN}.idx")
    starts = index.starts(folder / f"{TRAIN}.idx")
    with (folder / f"{TRAIN}.bin").open("r+b") as data:
        data.seek(places[starts[100]])
        data.write(b"\1\0")
    every = Sample(made, folder, "megatron", manifest(counts, tokenizers["byte_level"]), random.Random(0), 1.0)
    number = int(np.flatnonzero(starts[1:] > starts[100])[0]) + 1
    assert c4.rederive(every).problems == [f"{TRAIN}: expected the tokens of document {number}, found others"]


def test_a_source_that_became_shorter_is_found(spoiled, prepared, tokenizers):
    folder, counts = prepared
    (spoiled / "c4-train.00255-of-01024.json.gz").write_bytes(pack(["one"]))
    every = Sample(spoiled, folder, "megatron", manifest(counts, tokenizers["byte_level"]), random.Random(0), 1.0)
    problems = c4.rederive(every).problems
    assert problems[-1].startswith(f"{TRAIN}: expected {counts['train_documents']['1']} documents, found ")


def test_nothing_is_compared_by_another_tokenizer(made, prepared, tokenizers):
    folder, counts = prepared
    sample = Sample(made, folder, "megatron", manifest(counts, tokenizers["sentence_pieces"]), random.Random(0))
    with pytest.raises(BadInput, match="not what the tokens were made with"):
        c4.rederive(sample)


def test_every_entry_and_token_is_looked_at(prepared):
    folder, counts = prepared
    (folder / f"{VALIDATION}.idx").write_bytes(b"<html>")
    data = bytearray((folder / f"{TRAIN}.bin").read_bytes())
    data[6:8] = b"\xff\xff"
    (folder / f"{TRAIN}.bin").write_bytes(data)
    total = counts["train_documents"]["1"]
    assert c4.invariants(folder, "megatron", counts | {"train_documents": {"1": total + 1}}) == [
        f"{TRAIN}.idx: expected {total + 1} documents, found {total}",
        f"{TRAIN}.bin: token 4 is 65535, of a vocabulary of {counts['vocabulary']}",
        f"{VALIDATION}.idx: no index of a token file, it begins with b'<html>'",
    ]


def test_a_file_of_the_wrong_folder_is_not_tokenized_in_place_of_a_shard(made, tokenizers, tmp_path):
    with pytest.raises(BadInput, match="is not complete") as error:
        run(tmp_path, tmp_path / "to", tokenizers["byte_level"])
    assert error.value.next == shards.NEXT
