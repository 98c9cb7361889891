"""NumPy's `.npy` files (format version 1.0), written part by part and hashed on the way."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from podium import files


def write(path: Path, shape: tuple[int, ...], dtype: type, parts: Iterable[np.ndarray]) -> str:
    """Write an array whose C-ordered content arrives in `parts`; whole or not at all. Returns the file's md5.

    The bytes are those of `np.save` of the whole array. Raises ValueError when the parts do not make up `shape`.
    """
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape})
    digest = hashlib.md5(head.getvalue(), usedforsecurity=False)
    missing = int(np.prod(shape, dtype=np.int64))
    with files.writing(path) as file:
        file.write(head.getvalue())
        for part in parts:
            content = memoryview(np.ascontiguousarray(part, dtype)).cast("B")
            digest.update(content)
            file.write(content)
            missing -= part.size
        if missing:
            raise ValueError(f"{path}: the parts are {missing} values short of shape {shape}")
    return digest.hexdigest()
