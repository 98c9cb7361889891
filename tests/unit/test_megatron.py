"""Megatron's token files: an index is that of another writer, and the check finds what is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from podium.data.formats import megatron
from tokenized import written


@given(st.lists(arrays.arrays(np.int32, st.integers(0, 5), elements=st.integers(0, 3)), max_size=4), st.booleans())
def test_any_index_reads_back_as_it_was_written(tmp_path_factory, lengths, small):
    path = tmp_path_factory.mktemp("index") / "some.idx"
    dtype = megatron.token_dtype(65_499 if small else 65_500)
    megatron.write_index(path, dtype, lengths)
    documents = [[0] * length for piece in lengths for length in piece]
    assert path.read_bytes() == written(documents, "H" if small else "i")[1]
    path.with_suffix(".bin").write_bytes(bytes(sum(map(len, documents)) * dtype.itemsize))
    assert megatron.problems(path.with_suffix(""), 65_499 if small else 65_500, len(documents)) == []


DOCUMENTS = [[1, 2, 3], [], [4], [0, 0, 5, 6], [7], []]
PLACES = 34 + 4 * 4  # behind the lengths of four sequences
STARTS = PLACES + 8 * 4


@pytest.fixture
def prefix(tmp_path) -> Path:
    """A pair of files with two bytes a token."""
    for end, content in zip(("bin", "idx"), written(DOCUMENTS, "H"), strict=True):
        (tmp_path / f"some.{end}").write_bytes(content)
    return tmp_path / "some"


def at(end: str, place: int, form: str, value: int):
    """A change of one number."""

    def change(prefix: Path) -> None:
        path = prefix.with_suffix(f".{end}")
        data = bytearray(path.read_bytes())
        struct.pack_into(form, data, place, value)
        path.write_bytes(data)

    return change


def changed(end: str, change):
    return lambda prefix: (path := prefix.with_suffix(f".{end}")).write_bytes(change(path.read_bytes()))


WRONG = {
    "no tokens": (lambda prefix: prefix.with_suffix(".bin").unlink(), "some.bin: expected 6 documents, found no file"),
    "no index": (lambda prefix: prefix.with_suffix(".idx").unlink(), "some.idx: expected 6 documents, found no file"),
    "a cut .bin": (changed("bin", lambda data: data[:-2]), "some.bin: 18 bytes by its index, 16 found"),
    "a longer .bin": (changed("bin", lambda data: data + b"\0\0"), "some.bin: 18 bytes by its index, 20 found"),
    "a cut index": (changed("idx", lambda data: data[:-1]), "some.idx: 138 bytes by its header, 137 found"),
    "an error page": (changed("idx", lambda data: b"<html>"), "some.idx: no index of a token file"),
    "nothing": (changed("idx", lambda data: b""), "some.idx: no index of a token file"),
    "another version": (at("idx", 9, "<q", 2), "some.idx: version 2"),
    "a kind that is none": (at("idx", 17, "<B", 9), "kind of token 9"),
    "no documents": (at("idx", 26, "<q", 0), "0 places of documents are not known"),
    "another kind": (at("idx", 17, "<B", 3), "some.idx: expected tokens as uint16, found int16"),
    "an empty sequence": (at("idx", 34, "<i", 0), "some.idx: sequence 1 has 0 tokens"),
    "a negative length": (at("idx", 38, "<i", -1), "some.idx: sequence 2 has -1 tokens"),
    "a wrong place": (at("idx", PLACES + 8, "<q", 2), "some.idx: sequence 2 begins at byte 2, not at 6"),
    "a first document elsewhere": (at("idx", STARTS, "<q", 1), "some.idx: documents are sequences 1 to 4, not 0 to 4"),
    "a document of two": (at("idx", STARTS + 8, "<q", 2), "some.idx: document 1 has 2 sequences"),
    "documents backwards": (at("idx", STARTS + 16, "<q", 0), "some.idx: document 2 has -1 sequences"),
    "a token too high": (at("bin", 6, "<H", 8), "some.bin: token 4 is 8, of a vocabulary of 8"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(prefix, spoil, expected):
    assert megatron.problems(prefix, 8, 6) == []
    spoil(prefix)
    problems = megatron.problems(prefix, 8, 6)
    assert any(expected in problem for problem in problems), problems


def test_documents_are_counted(prefix):
    assert megatron.problems(prefix, 8, 7) == ["some.idx: expected 7 documents, found 6"]
