"""Drawn cases against the source, resampled once more: whole volumes by nibabel, interpolation as products of matrices.

Labels are equal or not. Images are interpolated in float64 at torch's float32 places, along D, H and W at once, where
`prepare` goes W, H, D and rounds to float32 after each: the results differ by less than TOLERANCE.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np

from podium.data.again import Again, Sample

TOLERANCE = 1e-4  # of x, whose values are in -2.34 ... 2.64
_MEAN, _STD, _LOWEST, _HIGHEST = 101.0, 76.9, -79.0, 304.0


def rederive(sample: Sample) -> Again:
    """Make drawn cases again: at least one, which takes a minute and the memory of its raw volume."""
    with (sample.folder / "cases.csv").open(encoding="utf-8", newline="") as file:
        names = [row["case"] for row in csv.DictReader(file)]
    drawn = sample.drawn(names, least=1)
    return Again(len(drawn), [problem for name in drawn for problem in _case(sample, name)])


def _case(sample: Sample, name: str) -> list[str]:
    imaging, segmentation = (nibabel.load(_path(sample.source, name, what)) for what in ("imaging", "segmentation"))
    target = sample.content.params.get("target_spacing", (1.6, 1.2, 1.2))
    least = sample.content.params.get("min_shape", (128, 128, 128))
    spacing = [float(step) for step in imaging.header["pixdim"][1:4]]
    shape = [int(step / wanted * size) for step, wanted, size in zip(spacing, target, imaging.shape, strict=True)]
    pads = [(max(want - have, 0) // 2, -(-max(want - have, 0) // 2)) for have, want in zip(shape, least, strict=True)]
    x, y = (np.load(sample.folder / f"{name}_{letter}.npy", mmap_mode="r") for letter in "xy")
    expected = (1, *(have + before + after for have, (before, after) in zip(shape, pads, strict=True)))
    if (x.shape, y.shape) != (expected, expected):
        return [f"{name}: expected the shape {expected}, found {x.shape} and {y.shape}"]
    problems = []
    if wrong := int((y[0] != np.pad(_nearest(segmentation, shape), pads, mode="edge")).sum()):
        problems.append(f"{name}_y.npy: expected the labels of the source, found {wrong} others")
    if not (largest := _largest_difference(imaging, shape, pads, x[0])) <= TOLERANCE:
        problems.append(f"{name}_x.npy: expected values within {TOLERANCE:g}, found one that differs by {largest:.2g}")
    return problems


def _path(source: Path, name: str, what: str) -> Path:
    places = [source / name, source / "data" / name]
    paths = [*(place / f"{what}.nii.gz" for place in places), source / "images" / f"{name}.nii.gz"]
    return next(path for path in paths if path.exists())


def _nearest(volume: nibabel.Nifti1Image, shape: Sequence[int]) -> np.ndarray:
    """The label at floor(i * size / wanted) along each axis, the step in float32."""
    places = [
        [min(int(np.float32(i) * (np.float32(size) / np.float32(wanted))), size - 1) for i in range(wanted)]
        for size, wanted in zip(volume.shape, shape, strict=True)
    ]
    return np.asanyarray(volume.dataobj)[np.ix_(*places)]


def _largest_difference(
    volume: nibabel.Nifti1Image, shape: Sequence[int], pads: Sequence[tuple[int, int]], x: np.ndarray
) -> float:
    """Between `x` (D, H, W) and the volume interpolated, normalised and padded, plane by plane."""
    raw = np.asanyarray(volume.dataobj)
    depth, height, width = (_weights(size, wanted) for size, wanted in zip(raw.shape, shape, strict=True))
    largest = 0.0
    for index in range(len(x)):
        weights = depth[min(max(index - pads[0][0], 0), shape[0] - 1)]
        plane = sum(weights[at] * raw[at].astype(np.float64) for at in np.flatnonzero(weights))
        normal = (np.clip(height @ plane @ width.T, _LOWEST, _HIGHEST) - _MEAN) / _STD
        largest = max(largest, float(np.abs(np.pad(normal, pads[1:], mode="edge") - x[index]).max()))
    return largest


def _weights(size: int, wanted: int) -> np.ndarray:
    """(wanted, size): how much each sample counts, the first and the last one aligned."""
    weights = np.zeros((wanted, size))
    step = np.float32(size - 1) / np.float32(wanted - 1) if wanted > 1 else np.float32(0)
    for i in range(wanted):
        place = np.float32(i) * step
        low = min(int(place), size - 1)
        part = min(max(float(place - np.float32(low)), 0.0), 1.0)
        weights[i, low] += 1 - part
        weights[i, min(low + 1, size - 1)] += part
    return weights
