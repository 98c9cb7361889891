"""What must hold of the prepared samples, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium.data.formats import objects
from podium.data.govreport import samples


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything that contradicts the format or the counts, one sentence each. A whole file is held: 1 GB."""
    wanted = {"train": counts["train_samples"], "validation": counts["eval_samples"]}
    return [problem for split, count in wanted.items() for problem in _of_file(folder / f"{split}.npy", count)]


def _of_file(path: Path, count: int) -> list[str]:
    try:
        rows = objects.read(path)
    except (OSError, ValueError) as error:
        return [f"{path.name}: expected {count} pickled samples, found {error!r}"]
    found = [] if len(rows) == count else [f"{path.name}: expected {count} samples, found {len(rows)}"]
    problems = ((number, _of_row(row)) for number, row in enumerate(rows, 1))
    return found + [f"{path.name}: sample {number}: {problem}" for number, problem in problems if problem]


def _of_row(row: Any) -> str:
    if not isinstance(row, dict) or tuple(row) != samples.KEYS:
        return f"expected {', '.join(samples.KEYS)}, found {list(row) if isinstance(row, dict) else type(row).__name__}"
    ids, mask, starts = row.values()
    if not isinstance(ids, np.ndarray) or ids.dtype not in (np.int32, np.int64) or ids.ndim != 1:
        return f"expected tokens as int32 or int64, found {getattr(ids, 'dtype', type(ids).__name__)}"
    if not isinstance(mask, list) or set(mask) - {0, 1} or starts != [0]:
        return "expected a mask of 0 and 1, and one sequence from 0 on"
    return samples.wrong(ids, np.array(mask))
