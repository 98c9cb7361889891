"""TFRecord, the record file of TensorFlow.

A record is `u64 length | u32 masked crc32c of the length | data | u32 masked crc32c of the data`, little-endian.
Source of the format: TensorFlow `core/lib/io/record_writer.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from podium.errors import BadInput

OVERHEAD = 16  # bytes of a record beside its data

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class Record(NamedTuple):
    """One record as read: where it starts in its file, its data, and whether the data fits its crc32c."""

    offset: int
    data: bytes
    intact: bool


def masked(crc: int) -> int:
    """The form in which a crc32c is stored, so that the crc of data that holds crcs stays a good one."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(*parts: bytes) -> list[bytes]:
    """The record of the joined `parts` as pieces to be written one after the other; no part is copied."""
    length = _LENGTH.pack(sum(map(len, parts)))
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return [length + _CRC.pack(masked(google_crc32c.value(length))), *parts, _CRC.pack(masked(crc))]


def scan(path: Path) -> Iterator[Record]:
    """Every record of a file in order, also those whose data does not fit its crc.

    Raises BadInput where the next record cannot be found: the length does not fit its crc, or the file is cut.
    """
    with path.open("rb", buffering=1 << 20) as file:
        offset = 0
        while head := file.read(12):
            if len(head) < 12 or _CRC.unpack_from(head, 8)[0] != masked(google_crc32c.value(head[:8])):
                raise _damaged(path, offset, "a length with its crc32c", f"{head.hex()}")
            (length,) = _LENGTH.unpack_from(head)
            data, tail = file.read(length), file.read(4)
            if len(tail) < 4:
                raise _damaged(path, offset, f"a record of {length} bytes", f"{len(data)} bytes, then the end")
            yield Record(offset, data, _CRC.unpack(tail)[0] == masked(google_crc32c.value(data)))
            offset += length + OVERHEAD


def read(path: Path) -> Iterator[bytes]:
    """The data of every record in order; raises BadInput at the first that is damaged."""
    for record in scan(path):
        if not record.intact:
            raise _damaged(path, record.offset, "data that fits its crc32c", "other data")
        yield record.data


def _damaged(path: Path, offset: int, expected: str, found: str) -> BadInput:
    return BadInput(f"{path}: damaged at byte {offset}", expected, found, "prepare it again")
