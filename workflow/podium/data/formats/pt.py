"""One tensor in PyTorch's `.pt` file, written and mapped without PyTorch.

Form: a zip whose members are stored: `data.pkl`, which says type and shape, the content in `data/0`, and `version`.
Source: PyTorch 1.6 and later, torch/serialization.py and caffe2/serialize/inline_container.cc.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from podium import files

STORAGES = {"<i8": "LongStorage", "<f2": "HalfStorage"}
_ITEMS = {name: dtype for dtype, name in STORAGES.items()}
_TENSOR = re.compile(
    rb"\x80\x02ctorch\._utils\n_rebuild_tensor_v2\n\(\(X\x07\0\0\0storagectorch\n(\w+)\n"
    rb"X\x01\0\0\x000X\x03\0\0\0cpu(\x8a\x08.{8})tQ\x8a\x08\0{8}\(((?:\x8a\x08.{8})+)t\((?:\x8a\x08.{8})+t"
    rb"\x89ccollections\nOrderedDict\n\)RtR\.",
    re.DOTALL,
)


@contextmanager
def writing(path: Path, dtype: str, shape: tuple[int, ...]) -> Iterator[Callable[[np.ndarray], None]]:
    """Write a tensor whose C-ordered content arrives in parts; whole or not at all.

    Raises ValueError when the parts do not make up `shape`.
    """
    missing = int(np.prod(shape, dtype=np.int64))
    with files.writing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in (("data.pkl", _described(dtype, shape)), ("version", b"3\n")):
            archive.writestr(_member(name), content)
        data = _member("data/0")
        data.extra = _padding(file.tell() + 30 + len(data.filename) + 20)  # behind the header and the sizes of zip64
        with archive.open(data, "w", force_zip64=True) as member:

            def write(part: np.ndarray) -> None:
                nonlocal missing
                member.write(memoryview(np.ascontiguousarray(part, dtype)).cast("B"))
                missing -= part.size

            yield write
        if missing:
            raise ValueError(f"{path}: the parts are {missing} values short of shape {shape}")


def mapped(path: Path) -> np.ndarray:
    """The tensor of a file that `writing` wrote, mapped read-only; raises ValueError for another file."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            match = _TENSOR.fullmatch(archive.read("archive/data.pkl"))
            info = archive.getinfo("archive/data/0")
            file.seek(info.header_offset + 26)
            start = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
    except (zipfile.BadZipFile, KeyError, struct.error) as error:
        raise ValueError(f"{path}: no tensor ({error})") from error
    if not match or match[1].decode() not in _ITEMS:
        raise ValueError(f"{path}: no tensor that Podium wrote")
    shape = tuple(struct.unpack("<q", match[3][at + 2 : at + 10])[0] for at in range(0, len(match[3]), 10))
    dtype = np.dtype(_ITEMS[match[1].decode()])
    if info.file_size != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
        raise ValueError(f"{path}: {info.file_size} bytes, not {shape} of {dtype}")
    if not info.file_size:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"archive/{name}")  # a folder of any name; the time is 1980, so that bytes are the same


def _padding(start: int) -> bytes:
    """A field that lets what follows it begin at a multiple of 64 bytes, as PyTorch's own writer does: mapped tensors
    are then aligned.
    """
    size = -(start + 4) % 64
    return b"FB" + struct.pack("<H", size) + bytes(size)


def _described(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The pickle of torch._utils._rebuild_tensor_v2(storage, 0, shape, stride, False, OrderedDict()).

    The storage is the persistent id ("storage", type, "0", "cpu", values). Opcodes: pickletools, protocol 2.
    """
    strides = [int(np.prod(shape[at + 1 :], dtype=np.int64)) for at in range(len(shape))]
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n"
        + STORAGES[dtype].encode()
        + b"\nX\x01\0\0\x000X\x03\0\0\0cpu"
        + _long(int(np.prod(shape, dtype=np.int64)))
        + b"tQ"
        + _long(0)
        + b"("
        + b"".join(map(_long, shape))
        + b"t("
        + b"".join(map(_long, strides))
        + b"t\x89ccollections\nOrderedDict\n)RtR."
    )


def _long(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)
