"""The demo's KiTS19: small phantoms in the original form, so that the real preparation has something true to do.

A phantom is two ellipsoid kidneys with a spherical tumour on each, and what looks like one but is not: spheres with the
tumours' intensity away from the kidneys (bowel) and small ones with the kidneys' (vessels), all under noise.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel
import numpy as np

from podium import files

CASES = 20
EVALUATION_CASES = (16, 17, 18, 19)  # for the preparation's parameter `evaluation_cases`
LEAST_SHAPE = (16, 16, 16)  # for its parameter `min_shape`: one window of the demo's config
TARGET_SPACING = np.array([1.6, 1.2, 1.2])  # mm, what the preparation resamples to
TUMOUR, TISSUE, KIDNEY = -60, 50, 200  # Hounsfield units, inside the preparation's clip of -79 to 304
NOISE = 15  # standard deviation, Hounsfield units


def make(to: Path) -> None:
    """Write `to`/case_%05d/{imaging,segmentation}.nii.gz, always the same bytes: 16 cases to train on, 4 to evaluate.

    int16 intensities in Hounsfield units; uint8 labels 0 background, 1 kidney, 2 tumour; axes z, y, x as in KiTS19.
    """
    for number in range(CASES):
        image, label, spacing = phantom(np.random.default_rng([19, number]))
        folder = to / f"case_{number:05d}"
        _write(folder / "imaging.nii.gz", image, spacing)
        _write(folder / "segmentation.nii.gz", label, spacing)


def phantom(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One case: image int16, label uint8 of the same shape, and the size (3,) of a voxel in mm, all as z, y, x.

    Resampled to 1.6 x 1.2 x 1.2 mm it has about 17 x 25 x 25 voxels.
    """
    spacing = np.array([rng.uniform(1.45, 1.75), *[rng.uniform(1.08, 1.17)] * 2], np.float32)
    shape = np.ceil(rng.uniform([14.8, 23.5, 23.5], [18, 26.5, 26.5]) * TARGET_SPACING / spacing).astype(int)
    axes = [
        (np.arange(size) - (size - 1) / 2) * step for size, step in zip(shape, spacing / TARGET_SPACING, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # positions from the middle, in resampled voxels

    image = np.full(shape, float(TISSUE))
    label = np.zeros(shape, np.uint8)
    for _ in range(2):
        bowel = _ball(grid, rng.uniform([-6, -11.5, -10], [6, -10, 10]), rng.uniform(1.5, 2))
        vessel = _ball(grid, rng.uniform([-6, 8, -10], [6, 11, 10]), rng.uniform(1, 1.5))
        image[bowel], image[vessel] = TUMOUR, KIDNEY
    for side in (-1, 1):
        centre = rng.uniform([-1.5, -1.5, 5.5], [1.5, 1.5, 6.5]) * [1, 1, side]
        radii = rng.uniform([5, 3.5, 3], [6.5, 4.5, 4])
        direction = rng.normal(size=3)
        kidney = _ball(grid, centre, radii)
        tumour = _ball(grid, centre + 0.6 * radii * direction / np.linalg.norm(direction), rng.uniform(2.8, 3.6))
        image[kidney], label[kidney] = KIDNEY, 1
        image[tumour], label[tumour] = TUMOUR, 2
    image += rng.normal(0, NOISE, shape)
    return np.rint(image).astype(np.int16), label, spacing


def _ball(grid: np.ndarray, centre: np.ndarray, radii: np.ndarray | float) -> np.ndarray:
    """Which positions of `grid` (D, H, W, 3) lie in the ellipsoid, bool (D, H, W)."""
    return (((grid - centre) / radii) ** 2).sum(axis=-1) <= 1


def _write(path: Path, array: np.ndarray, spacing: np.ndarray) -> None:
    """A gzipped NIfTI-1 file without time or name in its header; the axes are turned as in KiTS19 (slices first)."""
    affine = np.zeros((4, 4))
    affine[[2, 1, 0, 3], [0, 1, 2, 3]] = [*-spacing, 1]
    image = nibabel.Nifti1Image(array, affine, dtype=array.dtype)
    with files.writing(path) as file, gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        packed.write(image.to_bytes())
