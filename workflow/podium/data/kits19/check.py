"""What must hold of a prepared folder, by its own tables, by the format, and by what is published of the 210 cases."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium import files
from podium.data.kits19 import cases, published, resample
from podium.data.kits19.resample import HIGHEST, LOWEST, MEAN, STD, Shape

X_RANGE = ((LOWEST - MEAN) / STD, (HIGHEST - MEAN) / STD)
# Mean and deviation of x as the reference printed them, to two decimals (mlcommons/training issue 618).
X_PRINTED = {0: (-2.0, 0.85), 1: (-1.82, 0.94), 208: (-1.88, 0.99), 209: (-1.65, 1.11)}


@dataclass(frozen=True)
class Row:
    """One line of `cases.csv`."""

    name: str
    evaluation: bool
    raw_shape: Shape
    spacing: tuple[float, float, float]
    shape: Shape
    labels: tuple[int, int]

    @property
    def number(self) -> int:
        return int(self.name[-5:])


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Every problem of a prepared folder, as "<file>: expected ..., found ..."; an empty list where all is right.

    Where raw shape, voxel size and shape are those of a published case, y must have the published md5. The md5 of x
    depends on the version of torch that made the published one, so x is held to `checksum.json` and to its range, and
    in the full set to the reference's printed statistics.
    """
    try:
        rows = _rows(folder / "cases.csv")
        sums = files.read_json(folder / "checksum.json")
    except (OSError, ValueError, KeyError) as error:
        return [_problem("cases.csv, checksum.json", "the tables that podium prepare writes", repr(error))]
    full = counts.get("published") == cases.LIMIT
    problems = _names(folder, rows, sums) + _lists(folder, rows, counts) + _shapes(rows, counts)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for found in pool.map(lambda row: _pair(folder, row, sums, full), rows):
            problems += found
    return problems


def _names(folder: Path, rows: Sequence[Row], sums: Mapping[str, str]) -> list[str]:
    expected = {f"{row.name}_{letter}.npy" for row in rows for letter in "xy"}
    present = {path.name for path in folder.glob("*.npy")}
    problems = [_problem(name, "a file", "nothing") for name in sorted(expected - present)]
    problems += [_problem(name, "no such file (not in cases.csv)", "a file") for name in sorted(present - expected)]
    if sums.keys() != expected:
        wrong = ", ".join(sorted(sums.keys() ^ expected))
        problems.append(_problem("checksum.json", "the arrays of cases.csv", f"a difference in {wrong}"))
    return problems


def _lists(folder: Path, rows: Sequence[Row], counts: Mapping[str, Any]) -> list[str]:
    problems = []
    for split, chosen in (("train", False), ("evaluation", True)):
        expected = [row.number for row in rows if row.evaluation == chosen]
        path = folder / f"{split}_cases.txt"
        lines = path.read_text(encoding="ascii").split() if path.exists() else []
        if lines != [f"{number:05d}" for number in expected]:
            problems.append(_problem(path.name, f"the {len(expected)} cases of cases.csv", f"{len(lines)} others"))
        if counts.get(split) != len(expected):
            problems.append(_problem("cases.csv", f"{counts.get(split)} {split} cases", len(expected)))
    if counts.get("official_split"):
        official = set(published.official_evaluation())
        wrong = [row.name for row in rows if row.evaluation != (row.number in official)]
        if wrong:
            problems.append(_problem("evaluation_cases.txt", "the official split", f"others: {', '.join(wrong)}"))
    return problems


def _shapes(rows: Sequence[Row], counts: Mapping[str, Any]) -> list[str]:
    """Shapes follow from those of the source, kidney is where `prepare` found it, and the voxels are as many."""
    problems = []
    for row in rows:
        wanted = resample.new_shape(row.raw_shape, row.spacing, tuple(counts["target_spacing"]))
        expected = tuple(map(max, wanted, counts["min_shape"]))
        if row.shape != expected:
            problems.append(_problem(f"cases.csv, {row.name}", f"shape {expected}", row.shape))
    without = [row.name for row in rows if not row.labels[0]]
    if without != counts["without_kidney"]:
        problems.append(_problem("cases.csv", f"no kidney in {counts['without_kidney']}", f"none in {without}"))
    voxels = sum(math.prod(row.shape) for row in rows)
    if voxels != counts["voxels"]:
        problems.append(_problem("cases.csv", f"{counts['voxels']} voxels", voxels))
    return problems


def _pair(folder: Path, row: Row, sums: Mapping[str, str], full: bool) -> list[str]:
    known = published.match(row.name, row.raw_shape, row.spacing, row.shape)
    printed = X_PRINTED.get(row.number) if full else None
    return [
        *_array(folder / f"{row.name}_x.npy", np.float32, row, sums, None, lambda x: _x(x, printed)),
        *_array(folder / f"{row.name}_y.npy", np.uint8, row, sums, known and known.y_md5, lambda y: _y(y, row)),
    ]


def _array(
    path: Path,
    dtype: type,
    row: Row,
    sums: Mapping[str, str],
    known_md5: str | None,
    content: Callable[[np.ndarray], list[tuple[Any, Any]]],
) -> list[str]:
    """The problems of one file; a missing one is named elsewhere."""
    if not path.exists():
        return []
    pairs: list[tuple[Any, Any]] = []
    md5 = files.hash_file(path, "md5")
    if md5 != sums.get(path.name):
        pairs.append((f"md5 {sums.get(path.name)} of checksum.json", f"md5 {md5}"))
    if known_md5 and md5 != known_md5:
        pairs.append((f"the published md5 {known_md5}", f"md5 {md5}"))
    try:
        array = np.load(path, mmap_mode="r")
    except ValueError as error:
        pairs.append(("an array", str(error)))
    else:
        expected = f"{np.dtype(dtype)} of shape {(1, *row.shape)}"
        found = f"{array.dtype} of shape {array.shape}"
        pairs += content(array) if found == expected else [(expected, found)]
    return [_problem(path.name, *pair) for pair in pairs]


def _x(x: np.ndarray, printed: tuple[float, float] | None) -> list[tuple[Any, Any]]:
    problems = []
    least, greatest = x.min(), x.max()
    if not (least >= X_RANGE[0] and greatest <= X_RANGE[1]):
        problems.append((f"values in [{X_RANGE[0]:.4f}, {X_RANGE[1]:.4f}]", f"[{least:.4f}, {greatest:.4f}]"))
    if printed:
        statistics = float(x.mean(dtype=np.float64)), float(x.std(dtype=np.float64))
        if not np.allclose(statistics, printed, rtol=0, atol=0.011):
            problems.append(
                ("mean {:.2f} and deviation {:.2f}".format(*printed), "{:.3f} and {:.3f}".format(*statistics))
            )
    return problems


def _y(y: np.ndarray, row: Row) -> list[tuple[Any, Any]]:
    found = np.bincount(y.reshape(-1), minlength=3).tolist()
    if len(found) > 3:
        return [("labels 0, 1 and 2", f"labels up to {len(found) - 1}")]
    if (found[1], found[2]) != row.labels:
        return [("{} voxels of kidney and {} of tumour".format(*row.labels), f"{found[1]} and {found[2]}")]
    return []


def _rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                name=row["case"],
                evaluation=row["split"] == "evaluation",
                raw_shape=tuple(int(row[f"raw_{axis}"]) for axis in "dhw"),
                spacing=tuple(float(row[f"spacing_{axis}"]) for axis in "dhw"),
                shape=tuple(int(row[f"out_{axis}"]) for axis in "dhw"),
                labels=(int(row["kidney"]), int(row["tumour"])),
            )
            for row in csv.DictReader(file)
        ]


def _problem(file: str, expected: Any, found: Any) -> str:
    return f"{file}: expected {expected}, found {found}"
