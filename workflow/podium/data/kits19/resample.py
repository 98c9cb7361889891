"""The arithmetic of the reference: volumes onto another voxel size, normalised and padded, to the last bit.

Constants and steps: mlcommons/training retired_benchmarks/unet3d/pytorch/preprocess_dataset.py. It calls
torch.nn.functional.interpolate, whose bits (torch 2.0 to 2.14) are reproduced here: trilinear interpolation is one
linear step along W, then H, then D, each rounded to float32. Torch's AVX2 kernels fuse a product into the sum:
fma(w0, a, w1 * b). Its default kernels round both products.

Volumes come as NIfTI files hold them, W slabs of shape (H, D), and leave as .npy files hold them, D planes of (H, W).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

MEAN, STD = np.float32(101.0), np.float32(76.9)
LOWEST, HIGHEST = np.float32(-79.0), np.float32(304.0)

Shape = tuple[int, int, int]
_TOGETHER = 16  # slabs that are turned at once: 16 float32 fill one cache line of a plane


@dataclass(frozen=True)
class Linear:
    """Linear interpolation along one axis: out[i] = w0[i] * in[low[i]] + w1[i] * in[high[i]]."""

    low: np.ndarray
    high: np.ndarray
    w0: np.ndarray
    w1: np.ndarray


def new_shape(shape: Shape, spacing: tuple[float, float, float], target: tuple[float, float, float]) -> Shape:
    """The shape at the target spacing: in float64, cut off to an integer."""
    return tuple((np.array(spacing) / np.array(target) * np.array(shape)).astype(int).tolist())


def linear(size: int, wanted: int) -> Linear:
    """Indices and float32 weights from `size` to `wanted` samples, the first and last aligned (align_corners=True)."""
    if size == wanted:
        same, one = np.arange(size), np.ones(size, np.float32)
        return Linear(same, same, one, one - 1)
    scale = np.float32(size - 1) / np.float32(wanted - 1) if wanted > 1 else np.float32(0)
    position = np.arange(wanted, dtype=np.float32) * scale
    low = np.minimum(position.astype(np.int64), size - 1)
    w1 = np.clip(position - low.astype(np.float32), 0, 1, dtype=np.float32)
    return Linear(low, np.minimum(low + 1, size - 1), np.float32(1) - w1, w1)


def nearest(size: int, wanted: int) -> np.ndarray:
    """Indices from `size` to `wanted` samples: floor(i * size / wanted), in float32."""
    step = np.float32(size) / np.float32(wanted)
    return np.minimum((np.arange(wanted, dtype=np.float32) * step).astype(np.int64), size - 1)


def trilinear(slabs: Iterable[np.ndarray], shape: Shape, wanted: Shape, fused: bool) -> Iterator[np.ndarray]:
    """Interpolate a volume of `shape` to `wanted`: W slabs (H, D) in, D float32 planes (H, W) out.

    A slab is used before the next one is drawn, and the plane that is handed out is overwritten by the next.
    """
    depth, height, width = (linear(size, new) for size, new in zip(shape, wanted, strict=True))
    precision = np.float64 if fused else np.float32
    used, place = np.unique(np.concatenate([depth.low, depth.high]), return_inverse=True)
    columns = _along_height(_along_width(slabs, shape, width, precision), shape, height, precision)
    turned = _turned(columns, used, (len(used), *wanted[1:]), np.float32)
    plane, scratch = np.empty(wanted[1:], np.float32), np.empty(wanted[1:], precision)
    for low, high, w0, w1 in zip(place[: wanted[0]], place[wanted[0] :], depth.w0, depth.w1, strict=True):
        yield _blend(turned[:, low], turned[:, high], w0, w1, plane, scratch)


def nearest_planes(slabs: Iterable[np.ndarray], shape: Shape, wanted: Shape) -> Iterator[np.ndarray]:
    """Resample a volume of uint8 labels by the nearest: W slabs (H, D) in, D planes (H, W) out."""
    depth, height, width = (nearest(size, new) for size, new in zip(shape, wanted, strict=True))
    used, place = np.unique(depth, return_inverse=True)
    times = np.bincount(width, minlength=shape[2])
    columns = (column for slab, count in zip(slabs, times, strict=True) for column in [slab[height]] * count)
    turned = _turned(columns, used, (len(used), *wanted[1:]), np.uint8)
    for index in place:
        yield turned[:, index]


def normalise(plane: np.ndarray) -> np.ndarray:
    """Clip to the window of soft tissue and normalise, in place: (min(max(HU, -79), 304) - 101) / 76.9 in float32."""
    np.clip(plane, LOWEST, HIGHEST, out=plane)
    plane -= MEAN
    plane /= STD
    return plane


def padding(shape: Shape, least: Shape) -> tuple[tuple[int, int], ...]:
    """(before, after) per axis to reach `least`; the odd one goes behind."""
    lack = [max(want - have, 0) for have, want in zip(shape, least, strict=True)]
    return tuple((count // 2, count - count // 2) for count in lack)


def padded(planes: Iterable[np.ndarray], pads: tuple[tuple[int, int], ...]) -> Iterator[np.ndarray]:
    """Repeat the border values outwards: within each plane, and the first and last plane."""
    (before, after), *sides = pads
    plane = None
    for plane in planes:
        if any(map(any, sides)):
            plane = np.pad(plane, sides, mode="edge")
        yield from [plane] * (before + 1)
        before = 0
    yield from [plane] * after


def _along_width(slabs: Iterable[np.ndarray], shape: Shape, axis: Linear, precision: type) -> Iterator[np.ndarray]:
    """Between neighbouring slabs; every slab is drawn, so that the reader comes to the checksum behind the last."""
    source = enumerate(slabs)
    depth, height, _ = shape
    recent = np.empty((2, height, depth), np.float32)
    out, scratch = np.empty((height, depth), np.float32), np.empty((height, depth), precision)
    newest = -1
    for low, high, w0, w1 in zip(axis.low, axis.high, axis.w0, axis.w1, strict=True):
        while newest < high:
            newest, slab = next(source)
            np.copyto(recent[newest % 2], slab, casting="same_kind")
        yield _blend(recent[low % 2], recent[high % 2], w0, w1, out, scratch)
    for _ in source:
        pass


def _along_height(slabs: Iterable[np.ndarray], shape: Shape, axis: Linear, precision: type) -> Iterator[np.ndarray]:
    """Between the rows of each slab (H, D)."""
    size = (len(axis.low), shape[0])
    low, high, out, scratch = (np.empty(size, kind) for kind in (np.float32, np.float32, np.float32, precision))
    w0, w1 = axis.w0.astype(precision)[:, None], axis.w1[:, None]
    for slab in slabs:
        np.take(slab, axis.low, axis=0, out=low, mode="clip")
        np.take(slab, axis.high, axis=0, out=high, mode="clip")
        yield _blend(low, high, w0, w1, out, scratch)


def _turned(slabs: Iterable[np.ndarray], used: np.ndarray, shape: Shape, dtype: type) -> np.ndarray:
    """The volume (H, D, W) of W slabs (H, D), only the `used` indices along D: `[:, i]` is a plane (H, W) then."""
    depth, height, width = shape
    turned = np.empty((height, depth, width), dtype)
    block = np.empty((_TOGETHER, height, depth), dtype)
    for index, slab in enumerate(slabs):
        position = index % _TOGETHER
        np.take(slab, used, axis=1, out=block[position], mode="clip")
        if position == _TOGETHER - 1 or index == width - 1:
            turned[:, :, index - position : index + 1] = block[: position + 1].transpose(1, 2, 0)
    return turned


def _blend(
    a: np.ndarray, b: np.ndarray, w0: np.ndarray, w1: np.ndarray, out: np.ndarray, scratch: np.ndarray
) -> np.ndarray:
    """out = w0 * a + w1 * b in float32, the first product and the sum at the precision of `scratch`.

    In float32 every step rounds. In float64 the product of two float32 is exact, so that the sum is that of a fused
    multiply-add, rounded to float64 and then to float32: other than one rounding in fewer than one sum of 10^9.
    """
    np.multiply(b, w1, out=out)
    np.copyto(scratch, a)
    scratch *= w0
    scratch += out
    np.copyto(out, scratch, casting="same_kind")
    return out
