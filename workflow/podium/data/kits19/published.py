"""What is published of the 210 cases: the split, raw shape and voxel size, and the hashes of the reference's arrays."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import numpy as np

from podium.config import WORKFLOW
from podium.data.kits19.resample import Shape

TABLE = WORKFLOW / "catalog" / "datasets" / "kits19_cases.csv"


@dataclass(frozen=True)
class Published:
    """One row of the table; `shape` is (D, H, W) of the prepared arrays, the md5s are of the .npy files."""

    name: str
    evaluation: bool
    raw_shape: Shape
    spacing: tuple[float, float, float]
    shape: Shape
    x_md5: str
    y_md5: str


@cache
def cases() -> dict[str, Published]:
    """All 210 cases by name."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["case"]: _row(row) for row in csv.DictReader(file)}


def match(name: str, raw_shape: Shape, spacing: tuple[float, ...], shape: Shape) -> Published | None:
    """The published case that a prepared one is held to, or None: a phantom with the same number is another case."""
    known = cases().get(name)
    if known is None or (known.raw_shape, known.shape) != (tuple(raw_shape), tuple(shape)):
        return None
    return known if np.allclose(known.spacing, spacing, rtol=1e-6) else None


def official_evaluation() -> tuple[int, ...]:
    """The numbers of the 42 evaluation cases (unet3d/pytorch/evaluation_cases.txt)."""
    return tuple(int(case.name[-5:]) for case in cases().values() if case.evaluation)


def _row(row: dict[str, str]) -> Published:
    def three(prefix: str, axes: str, kind: type) -> tuple:
        return tuple(kind(row[f"{prefix}_{axis}"]) for axis in axes)

    return Published(
        name=row["case"],
        evaluation=row["split"] == "evaluation",
        raw_shape=three("raw", "dhw", int),
        spacing=three("spacing", "dhw", float),
        shape=three("out", "dhw", int),
        x_md5=row["x_md5"],
        y_md5=row["y_md5"],
    )
