"""What must hold of HugeCTR's rows, whatever their number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium import config as configuration
from podium import files
from podium.data.criteo import days, rows

NAMES = ("train", "eval", "test")


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything that contradicts the format or the counts, one sentence each: sizes, and of each row its label, its
    numbers and its ids; of the whole set the published md5.
    """
    facts = configuration.catalog("datasets/criteo")["published"]
    whole = all(counts[name] == facts[name] for name in ("train_samples", "eval_samples"))
    problems = []
    for name in NAMES:
        path, expected = rows.path_of(folder, name), counts[f"{name}_samples"]
        size = path.stat().st_size if path.is_file() else -1
        if size != expected * rows.BYTES:
            problems.append(f"{path.name}: expected {expected} rows of {rows.BYTES} bytes, found {size} bytes")
            continue
        problems += [f"{path.name}: {problem}" for problem in _of_rows(path, expected)]
        published = facts["hugectr_md5"][path.name]
        if whole and (found := files.hash_file(path, "md5")) != published:
            problems.append(f"{path.name}: expected the published md5 {published}, found {found}")
    return problems


def _of_rows(path: Path, count: int) -> list[str]:
    """Of each kind of problem how many rows have it, and the first of them."""
    wrong: dict[str, list[int]] = {}
    for start in range(0, count, rows.BLOCK):
        block = np.fromfile(path, "<i4", min(rows.BLOCK, count - start) * (rows.BYTES // 4), offset=start * rows.BYTES)
        block = block.reshape(-1, rows.BYTES // 4)
        label, dense, ids = np.split(block, [1, 1 + days.DENSE], axis=1)
        checks = {
            "label 0 or 1": ((label | 1) != 1).any(1),
            "13 finite numbers": ~np.isfinite(dense.view("<f4")).all(1),
            "ids from 0": (ids < 0).any(1),
        }
        for expected, bad in checks.items():
            if bad.any():
                number, first = wrong.get(expected, (0, start + int(np.argmax(bad))))
                wrong[expected] = [number + int(bad.sum()), first]
    return [
        f"expected {expected}, found others in {number} rows, such as row {first}"
        for expected, (number, first) in wrong.items()
    ]
