"""NIfTI volumes, read as they lie in the file: a checked header, then slab after slab, never the whole in float64.

The voxels of a NIfTI file run fastest along the first axis. For a volume of shape (D, H, W) the file is therefore a
sequence of W slabs, each an array of shape (H, D). Format: NIfTI-1 and NIfTI-2, whose headers nibabel reads.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from isal import igzip, isal_zlib
from nibabel.nifti1 import Nifti1Header
from nibabel.nifti2 import Nifti2Header
from nibabel.spatialimages import HeaderDataError

from podium.errors import BadInput

_DAMAGE = (EOFError, gzip.BadGzipFile, isal_zlib.error)


@dataclass(frozen=True)
class Volume:
    """The header of one 3-D file: `shape` (D, H, W), `spacing` in millimetres, and how the voxels are stored.

    `scale` is (slope, intercept) of the stored values, None where they are used as they are.
    """

    path: Path
    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    dtype: np.dtype
    affine: np.ndarray
    scale: tuple[float, float] | None
    offset: int


def read_header(path: Path) -> Volume:
    """Read the header of a `.nii.gz` file of either byte order; raises BadInput for anything but a 3-D NIfTI volume."""
    with _open(path) as file:
        try:
            header = _parse(path, file.read(Nifti2Header.sizeof_hdr))
        except _DAMAGE as error:
            raise _damaged(path, error) from error
    shape = header.get_data_shape()
    if len(shape) != 3 or min(shape) < 1:
        raise _bad(path, "is not a 3-D volume", "three axes of at least one voxel", f"shape {shape}")
    spacing = tuple(float(step) for step in header["pixdim"][1:4])
    if not all(np.isfinite(step) and step > 0 for step in spacing):
        raise _bad(path, "has no voxel size", "three positive lengths in pixdim", f"{spacing}")
    slope, intercept = header.get_slope_inter()
    scaled = slope is not None and (slope, intercept) != (1.0, 0.0)
    return Volume(
        path=path,
        shape=shape,
        spacing=spacing,
        dtype=header.get_data_dtype(),
        affine=header.get_best_affine(),
        scale=(slope, intercept) if scaled else None,
        offset=header.get_data_offset(),
    )


def slabs(volume: Volume) -> Iterator[np.ndarray]:
    """The W slabs of a volume in file order, each (H, D) in the stored type and overwritten by the next.

    After the last one the gzip checksum is proven. Raises BadInput where the file ends early or its checksum is wrong.
    """
    depth, height, width = volume.shape
    with _open(volume.path) as file:
        try:
            _skip(file, volume.offset)
            slab = np.empty((height, depth), volume.dtype)
            for _ in range(width):
                _fill(file, memoryview(slab).cast("B"))
                yield slab
            while file.read(1 << 20):
                pass
        except _DAMAGE as error:
            raise _damaged(volume.path, error) from error


def values(volume: Volume, slab: np.ndarray) -> np.ndarray:
    """What the stored numbers mean: themselves, or scaled in float64 where the header asks for it (as nibabel does)."""
    if volume.scale is None:
        return slab
    slope, intercept = volume.scale
    return slab * np.float64(slope) + intercept


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        start = file.read(16)
    if start[:2] != b"\x1f\x8b":
        found = f"{path.stat().st_size} bytes that begin with {start!r}"
        raise _bad(path, "is not a gzip file", "a gzip-compressed NIfTI volume", found)
    return igzip.open(path, "rb")


def _parse(path: Path, block: bytes) -> Nifti1Header:
    """The header in the first 540 bytes; its first number, 348 or 540, tells the version and the byte order."""
    first = {int.from_bytes(block[:4], order) for order in ("little", "big")}
    for kind in (Nifti1Header, Nifti2Header):
        if kind.sizeof_hdr in first and len(block) >= kind.sizeof_hdr:
            try:
                return kind(block[: kind.sizeof_hdr])
            except HeaderDataError as error:
                raise _bad(path, "has a broken header", "a NIfTI header", str(error)) from error
    raise _bad(path, "is not a NIfTI file", "a header of 348 or 540 bytes", f"{len(block)} bytes: {block[:16]!r} ...")


def _skip(file: IO[bytes], count: int) -> None:
    if len(file.read(count)) < count:
        raise EOFError("it ends within the header")


def _fill(file: IO[bytes], target: memoryview) -> None:
    done = 0
    while done < len(target):
        count = file.readinto(target[done:])
        if not count:
            raise EOFError("it ends before the last voxel")
        done += count


def _damaged(path: Path, error: Exception) -> BadInput:
    return _bad(path, "is damaged", "a whole file with a right gzip checksum", str(error))


def _bad(path: Path, fault: str, expected: str, found: str) -> BadInput:
    return BadInput(f"{path} {fault}", expected, found, f"rm {path} and fetch it again")
