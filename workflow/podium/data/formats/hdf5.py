"""HDF5 files that are whole or absent, the same bytes every time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import h5py

from podium import files


@contextlib.contextmanager
def writing(path: Path) -> Iterator[h5py.File]:
    """A new HDF5 file that appears at `path` on a clean exit; without times in it: its bytes depend on its content."""
    with files.writing(path, "w+b") as file, h5py.File(file, "w") as store:
        yield store
