"""A `.npy` file of objects: dictionaries with arrays and lists of small numbers, pickled by NumPy.

Written an operation at a time, so that a file has the bytes that `numpy.save` of NumPy 1 gives it (protocol 3 of
pickle; the module is called numpy.core there) whatever is installed here, and no more than one dictionary is held.
Source of the format: numpy.lib.format, PEP 307 and Python's pickletools.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium import files

Row = Mapping[str, np.ndarray | bytes]  # arrays of one dimension; lists of numbers from 0 to 255, as bytes
_BATCH = 1000  # items that pickle appends in one go
_MINUS_ONE = b"J\xff\xff\xff\xff"
_CLASSES = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


def write(path: Path, count: int, rows: Iterable[Row]) -> None:
    """Write `count` dictionaries that arrive one by one; whole or not at all.

    Raises ValueError where they are more or fewer.
    """
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|O", "fortran_order": False, "shape": (count,)})
    pickled, there = _Pickled(), 0
    with files.writing(path) as file:
        file.write(head.getvalue() + pickled.begun(count))
        for row in rows:
            # pickle has a mark before each batch, none for a single item
            file.write(b"(" if there % _BATCH == 0 and count > 1 else b"")
            file.write(pickled.row(row))
            there += 1
            file.write(b"e" if count > 1 and (there % _BATCH == 0 or there == count) else b"")
        if there != count:
            raise ValueError(f"{path}: {there} rows, not {count}")
        file.write((b"a" if count == 1 else b"") + pickled.ended())


def read(path: Path) -> list[Any]:
    """The objects of a file; nothing but arrays and Python's own types is made of it.

    Raises ValueError for what is none.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file) if version == (1, 0) else ((), False, None)
        if dtype != np.dtype("O") or len(shape) != 1:
            raise ValueError(f"expected a list of objects, found version {version}, {dtype} {shape}")
        try:
            content = _Unpickled(file).load()
        except (pickle.UnpicklingError, EOFError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"no pickled objects ({error})") from error
    if not isinstance(content, np.ndarray) or content.shape != shape or content.dtype != dtype:
        raise ValueError(f"expected {shape[0]} objects, found {type(content).__name__}")
    return content.tolist()


class _Unpickled(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"expected arrays, found {module}.{name}")
        return _CLASSES[module, name]


class _Pickled:
    """Operations of pickle, and which objects were seen before: those are only referred to."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._count = 0

    def begun(self, count: int) -> bytes:
        """An array of objects, up to the first of its list."""
        return b"\x80\x03" + self._array(count, "|O8", b"K\x3f") + b"\x89]" + self._put()

    def row(self, row: Row) -> bytes:
        """A dictionary of more than one entry."""
        parts = [b"}", self._put(), b"("]
        for name, value in row.items():
            parts.append(self._known(name, _text(name)))
            parts.append(self._of_array(value) if isinstance(value, np.ndarray) else self._list(value))
        return b"".join([*parts, b"u"])

    def ended(self) -> bytes:
        """What follows the last object."""
        return b"t" + self._put() + b"b."

    def _of_array(self, array: np.ndarray) -> bytes:
        content = array.tobytes()
        size = b"C" + bytes([len(content)]) if len(content) < 256 else b"B" + struct.pack("<I", len(content))
        return (
            self._array(len(array), array.dtype.str, b"K\0")
            + b"\x89"
            + size
            + content
            + self._put()
            + self.ended()[:-1]
        )

    def _array(self, length: int, dtype: str, flags: bytes) -> bytes:
        """An array of one dimension, up to its content."""
        return b"".join(
            [
                self._known("reconstruct", b"cnumpy.core.multiarray\n_reconstruct\n"),
                self._known("ndarray", b"cnumpy\nndarray\n"),
                *(b"K\0\x85", self._put()),
                self._known("b", b"C\x01b"),
                *(b"\x87", self._put(), b"R", self._put()),
                *(b"(K\x01", _number(length), b"\x85", self._put()),
                self._dtype(dtype, flags),
            ]
        )

    def _dtype(self, dtype: str, flags: bytes) -> bytes:
        if dtype in self._seen:
            return self._get(dtype)
        order, kind = dtype[0], dtype[1:]
        begun = self._known("dtype", b"cnumpy\ndtype\n") + _text(kind) + self._put() + b"\x89\x88\x87" + self._put()
        made = self._known(dtype, b"R")
        state = b"(K\x03" + _text(order) + self._put() + b"NNN" + _MINUS_ONE * 2 + flags + b"t" + self._put() + b"b"
        return begun + made + state

    def _list(self, values: bytes) -> bytes:
        begun = b"]" + self._put()
        if len(values) == 1:
            return begun + bytes([ord("K"), values[0], ord("a")])
        operations = np.full((len(values), 2), ord("K"), np.uint8)
        operations[:, 1] = np.frombuffer(values, np.uint8)
        batches = (operations[place : place + _BATCH].tobytes() for place in range(0, len(values), _BATCH))
        return begun + b"".join(b"(" + batch + b"e" for batch in batches)

    def _known(self, name: str, content: bytes) -> bytes:
        """An object that is written once and then referred to."""
        if name in self._seen:
            return self._get(name)
        self._seen[name] = self._count
        return content + self._put()

    def _put(self) -> bytes:
        number, self._count = self._count, self._count + 1
        return b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)

    def _get(self, name: str) -> bytes:
        number = self._seen[name]
        return b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _number(number: int) -> bytes:
    for code, form, limit in ((b"K", "<B", 1 << 8), (b"M", "<H", 1 << 16)):
        if number < limit:
            return code + struct.pack(form, number)
    return b"J" + struct.pack("<i", number)
