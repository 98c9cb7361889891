"""Megatron's token files: `<prefix>.bin`, every token behind the other, and `<prefix>.idx`, where each document is.

The index is little-endian: magic, version, kind of token, how many sequences, how many places of documents; then the
tokens of each sequence (int32), the byte of the .bin at which each begins (int64), and of each document the sequence it
begins with, with one more behind the last (int64). A document is one sequence here, or none where it has no token.
Source of the format: NVIDIA/Megatron-LM d98e8a64, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podium import files

MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<9sQBQQ")
KINDS = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}
_CODES = {np.dtype(dtype): code for code, dtype in KINDS.items()}
_SMALL = 65_500  # vocabularies below it are written with two bytes a token
_STEP = 1 << 20  # numbers looked at in one go


@dataclass(frozen=True)
class Index:
    """The head of an index: of what kind tokens are, and how many sequences and documents there are."""

    dtype: np.dtype
    sequences: int
    documents: int

    @property
    def bytes(self) -> int:
        """What the file must have."""
        return _HEAD.size + self.sequences * (4 + 8) + (self.documents + 1) * 8

    def lengths(self, path: Path) -> np.ndarray:
        """The tokens of each sequence, int32, as they lie in the file."""
        return _mapped(path, "<i4", _HEAD.size, self.sequences)

    def places(self, path: Path) -> np.ndarray:
        """The byte of the .bin at which each sequence begins, int64, as they lie in the file."""
        return _mapped(path, "<i8", _HEAD.size + 4 * self.sequences, self.sequences)

    def starts(self, path: Path) -> np.ndarray:
        """The sequence that each document begins with, and one behind the last, int64, as they lie in the file."""
        return _mapped(path, "<i8", _HEAD.size + 12 * self.sequences, self.documents + 1)


def token_dtype(vocabulary: int) -> np.dtype:
    """How tokens of so many kinds are written: two bytes below 65,500, else four."""
    return np.dtype("<u2" if vocabulary < _SMALL else "<i4")


def read_index(path: Path) -> Index:
    """The head of an index; raises ValueError that says why it is none, or that its size is not what it says."""
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        raise ValueError(f"no index of a token file, it begins with {head[:9]!r}")
    _, version, kind, sequences, places = _HEAD.unpack(head)
    if version != 1 or kind not in KINDS or not places:
        raise ValueError(f"version {version}, kind of token {kind} and {places} places of documents are not known")
    index = Index(np.dtype(KINDS[kind]), sequences, places - 1)
    if path.stat().st_size != index.bytes:
        raise ValueError(f"{index.bytes} bytes by its header, {path.stat().st_size} found")
    return index


def write_index(path: Path, dtype: np.dtype, lengths: Sequence[np.ndarray]) -> None:
    """Write the index of documents with these numbers of tokens, in pieces one behind the other; whole or not at all.

    The pieces are gone through three times and may be mapped from files: no more than one is held.
    """
    documents = sum(len(piece) for piece in lengths)
    sequences = sum(int(np.count_nonzero(piece)) for piece in lengths)
    with files.writing(path) as file:
        file.write(_HEAD.pack(MAGIC, 1, _CODES[dtype], sequences, documents + 1))
        for piece in lengths:
            file.write(piece[piece > 0].astype("<i4"))
        place = 0
        for piece in lengths:
            ends = place + np.cumsum(piece[piece > 0], dtype="<i8") * dtype.itemsize
            if len(ends):
                file.write(np.concatenate(([place], ends[:-1])).astype("<i8"))
                place = int(ends[-1])
        file.write(bytes(8))
        before = 0
        for piece in lengths:
            starts = before + np.cumsum(piece > 0, dtype="<i8")
            file.write(starts)
            before = int(starts[-1]) if len(starts) else before


def problems(prefix: Path, vocabulary: int, documents: int) -> list[str]:
    """Everything in which a .bin and its .idx contradict the format, each other, the vocabulary or the number of
    documents, one sentence each. Both are read whole, in pieces.
    """
    path, data = prefix.with_name(f"{prefix.name}.idx"), prefix.with_name(f"{prefix.name}.bin")
    if missing := [one.name for one in (path, data) if not one.is_file()]:
        return [f"{name}: expected {documents} documents, found no file" for name in missing]
    try:
        index = read_index(path)
    except ValueError as error:
        return [f"{path.name}: {error}"]
    found = []
    if index.documents != documents:
        found.append(f"{path.name}: expected {documents} documents, found {index.documents}")
    if index.dtype != token_dtype(vocabulary):
        found.append(f"{path.name}: expected tokens as {token_dtype(vocabulary)}, found {index.dtype}")
    found += [f"{path.name}: {problem}" for problem in _of_index(path, index)]
    tokens = _total(index.lengths(path))
    if data.stat().st_size != tokens * index.dtype.itemsize:
        return [
            *found,
            f"{data.name}: {tokens * index.dtype.itemsize} bytes by its index, {data.stat().st_size} found",
        ]
    return found + [f"{data.name}: {problem}" for problem in _of_tokens(data, index.dtype, vocabulary)]


def _of_index(path: Path, index: Index) -> Iterator[str]:
    """The first place of each of its three tables that does not fit."""
    lengths, places, starts = index.lengths(path), index.places(path), index.starts(path)
    place = 0
    for begin in range(0, index.sequences, _STEP):
        those = lengths[begin : begin + _STEP].astype("<i8")
        if (wrong := np.flatnonzero(those < 1)).size:
            yield f"sequence {begin + wrong[0] + 1} has {those[wrong[0]]} tokens"
            break
        ends = place + np.cumsum(those) * index.dtype.itemsize
        expected = np.concatenate(([place], ends[:-1]))
        if (wrong := np.flatnonzero(places[begin : begin + _STEP] != expected)).size:
            first = begin + wrong[0]
            yield f"sequence {first + 1} begins at byte {places[first]}, not at {expected[wrong[0]]}"
            break
        place = int(ends[-1])
    if starts[0] != 0 or starts[-1] != index.sequences:
        yield f"documents are sequences {starts[0]} to {starts[-1]}, not 0 to {index.sequences}"
    for begin in range(0, index.documents, _STEP):
        steps = np.diff(starts[begin : begin + _STEP + 1])
        if (wrong := np.flatnonzero((steps < 0) | (steps > 1))).size:
            yield f"document {begin + wrong[0] + 1} has {steps[wrong[0]]} sequences"
            break


def _of_tokens(data: Path, dtype: np.dtype, vocabulary: int) -> Iterator[str]:
    with data.open("rb") as file:
        before = 0
        while (tokens := np.frombuffer(file.read(_STEP * dtype.itemsize), dtype)).size:
            if (wrong := np.flatnonzero((tokens < 0) | (tokens >= vocabulary))).size:
                yield f"token {before + wrong[0] + 1} is {tokens[wrong[0]]}, of a vocabulary of {vocabulary}"
                return
            before += len(tokens)


def _total(lengths: np.ndarray) -> int:
    return int(lengths.sum(dtype=np.int64))


def _mapped(path: Path, dtype: str, start: int, count: int) -> np.ndarray:
    return np.memmap(path, np.dtype(dtype), "r", start, (count,)) if count else np.empty(0, dtype)
