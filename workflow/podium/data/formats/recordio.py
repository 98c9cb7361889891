"""RecordIO, the record file of MXNet: what `im2rec --pass-through` writes and `fn.readers.mxnet` reads.

A record is `u32 magic | u32 kind << 29 | length | payload | zeros to a multiple of 4`, all little-endian. A payload in
which the magic word stands at a multiple of 4 is cut there: the parts have kind 1 (first), 2 (middle), 3 (last), each
with a head of its own, and the magic words between them are left out. Every other payload is one part of kind 0.
The payload of an image is a 24-byte head (flag, label, id, id2) and the file's bytes.
Source of the format: dmlc-core `recordio.h` and MXNet `recordio.py`; checked against files of MXNet 1.9.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from podium.errors import BadInput

MAGIC = 0xCED7230A
MAX_LENGTH = (1 << 29) - 1
WHOLE, FIRST, MIDDLE, LAST = range(4)

_MAGIC = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<II")
_IMAGE_HEAD = struct.Struct("<IfQQ")


class Record(NamedTuple):
    """One record as read: where it starts in its file, and its payload with the magic words put back."""

    offset: int
    payload: bytes


class ImageRecord(NamedTuple):
    """A payload taken apart: `flag` is 0 (one label), `id` the line of the list, `id2` 0."""

    flag: int
    label: float
    id: int
    id2: int
    image: bytes


def image_head(label: float, id: int) -> bytes:
    """The 24 bytes that stand before an image with one label."""
    return _IMAGE_HEAD.pack(0, label, id, 0)


def image(payload: bytes) -> ImageRecord:
    """Take a payload apart; raises struct.error for one shorter than its head."""
    return ImageRecord(*_IMAGE_HEAD.unpack_from(payload), payload[_IMAGE_HEAD.size :])


def frame(head: bytes, data: bytes) -> list[bytes]:
    """The record of the payload `head + data` as pieces to be written one after the other.

    `head` has a multiple of 4 bytes. Raises BadInput for a payload of 2^29 bytes or more.
    """
    length = len(head) + len(data)
    if length > MAX_LENGTH:
        raise BadInput("an image too large for RecordIO", f"at most {MAX_LENGTH} bytes", f"{length} bytes", "remove it")
    padding = bytes(-length % 4)
    if _has_magic(head) or _has_magic(data):
        return [*_cut(head + data), padding]
    return [_HEAD.pack(MAGIC, length) + head, data, padding]


def _has_magic(data: bytes) -> bool:
    """Whether the magic word stands in `data` at a multiple of 4 (numpy finds it 9x faster than `bytes.find`)."""
    return bool((np.frombuffer(data, "<u4", len(data) // 4) == MAGIC).any())


def _cut(payload: bytes) -> list[bytes]:
    words = np.frombuffer(payload, "<u4", len(payload) // 4)
    pieces, start = [], 0
    for cut in (4 * np.flatnonzero(words == MAGIC)).tolist():
        pieces += [_part(MIDDLE if start else FIRST, cut - start), payload[start:cut]]
        start = cut + 4
    return [*pieces, _part(LAST, len(payload) - start), payload[start:]]


def _part(kind: int, length: int) -> bytes:
    return _HEAD.pack(MAGIC, kind << 29 | length)


def read(path: Path) -> Iterator[Record]:
    """Every record of a file in order; raises BadInput at the first that is cut or has no magic word."""
    with path.open("rb", buffering=1 << 20) as file:
        offset = 0
        while (part := _read_part(file, path)) is not None:
            kind, payload = part
            start, parts = offset, [payload]
            if kind not in (WHOLE, FIRST):
                raise _damaged(path, start, "the first part of a record", f"a part of kind {kind}")
            while kind not in (WHOLE, LAST):
                part = _read_part(file, path)
                if part is None or part[0] not in (MIDDLE, LAST):
                    raise _damaged(path, start, "all parts of the record", f"{len(parts)} of them")
                kind = part[0]
                parts.append(part[1])
            offset = file.tell()
            yield Record(start, _MAGIC.join(parts))


def _read_part(file: BinaryIO, path: Path) -> tuple[int, bytes] | None:
    head = file.read(_HEAD.size)
    if not head:
        return None
    offset = file.tell() - len(head)
    if len(head) < _HEAD.size:
        raise _damaged(path, offset, "a record head of 8 bytes", f"{len(head)} bytes, then the end of the file")
    magic, word = _HEAD.unpack(head)
    if magic != MAGIC:
        raise _damaged(path, offset, f"the magic word {MAGIC:#x}", f"{magic:#x}")
    length = word & MAX_LENGTH
    padded = file.read(length + -length % 4)
    if len(padded) < length + -length % 4:
        raise _damaged(path, offset, f"a record of {length} bytes", f"{len(padded)} bytes, then the end of the file")
    return word >> 29, padded[:length]


def _damaged(path: Path, offset: int, expected: str, found: str) -> BadInput:
    return BadInput(f"{path}: damaged at byte {offset}", expected, found, "prepare it again")
