"""MAT files of MATLAB 5 to 7.2, as much as a table needs: struct arrays, text and numbers.

The development kit of ImageNet keeps the classes in one. Source of the format: MathWorks, "MAT-File Format", level 5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

_NUMBERS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le", 18: "utf-32-le"}
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _CHAR, _FIRST_NUMBER, _LAST_NUMBER = 1, 2, 4, 6, 15  # classes of a matrix


def read(data: bytes) -> dict[str, Any]:
    """The variables of a file: a struct array is a list of dicts, text a str, any other array a flat list.

    Raises ValueError for anything that is no little-endian MAT file of level 5, or is damaged.
    """
    if data[126:128] != b"IM":
        raise ValueError("no MAT file of level 5")
    try:
        return dict(_matrix(body) for kind, body in _elements(data[128:]) if kind == _MATRIX)
    except (struct.error, zlib.error, IndexError, KeyError, StopIteration) as error:
        raise ValueError(f"damaged MAT file: {error!r}") from error


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, content) of each element; a compressed one is opened."""
    position = 0
    while position < len(data):
        kind, size = struct.unpack_from("<II", data, position)
        if kind >> 16:  # a small element: size, type and at most 4 bytes of content share 8 bytes
            yield kind & 0xFFFF, data[position + 4 : position + 4 + (kind >> 16)]
            position += 8
            continue
        body = data[position + 8 : position + 8 + size]
        if len(body) < size:
            raise ValueError(f"damaged MAT file: {size} bytes expected at byte {position}, {len(body)} found")
        if kind == _COMPRESSED:
            yield from _elements(zlib.decompress(body))
            position += 8 + size
        else:
            yield kind, body
            position += 8 + size + -size % 8


def _matrix(body: bytes) -> tuple[str, Any]:
    """Name and value of a matrix."""
    if not body:
        return "", []
    elements = _elements(body)
    flags, _, name = [next(elements)[1] for _ in range(3)]  # the dimensions are not needed
    kind, name = flags[0], name.decode()
    if kind == _CELL:
        return name, [_matrix(cell)[1] for _, cell in elements]
    if kind == _STRUCT:
        (width,), fields = struct.unpack("<i", next(elements)[1]), next(elements)[1]
        keys = [fields[i : i + width].split(b"\0")[0].decode() for i in range(0, len(fields), width)]
        values = [_matrix(value)[1] for _, value in elements]
        return name, [dict(zip(keys, values[i : i + len(keys)], strict=True)) for i in range(0, len(values), len(keys))]
    if kind != _CHAR and not _FIRST_NUMBER <= kind <= _LAST_NUMBER:
        raise ValueError(f"no table in a MAT file: {name} is of class {kind}")
    stored, content = next(elements, (1, b""))
    if kind == _CHAR:
        return name, content.decode(_ENCODINGS[stored])
    form = _NUMBERS[stored]
    return name, list(struct.unpack(f"<{len(content) // struct.calcsize(form)}{form}", content))
