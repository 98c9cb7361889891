"""What must hold of a layout in which the sequences stand in another order: each of them is there once, and of packed
rows none is fuller than it may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from podium.data.wikipedia import arrange, shards
from podium.data.wikipedia.layouts import LENGTHS, PACKED, Layout
from podium.data.wikipedia.ragged import Ragged
from podium.data.wikipedia.strategies import MOST


def problems(folder: Path, form: Layout, counts: Mapping[str, Any], instances: Sequence[int]) -> list[str]:
    """Every problem, one sentence each. `instances` is how many each training file has."""
    found: list[str] = []
    if form.arranged is PACKED:
        found += _sample_problems(folder, form, counts)
    numbers = []
    for number, count in enumerate(instances):
        name = form.arranged.listed.format(number)
        try:
            listed = arrange.listed(folder / name, form.arranged.width)
        except (OSError, ValueError, TypeError) as error:
            found.append(f"{name}: expected where each sequence comes from, found {error}")
            continue
        if len(listed) != count:
            found.append(f"{name}: expected {count} sequences, found {len(listed)}")
        numbers.append(listed)
    return found + _lost(numbers, counts["train_instances"], instances)


def _lost(listed: Sequence[np.ndarray], total: int, instances: Sequence[int]) -> list[str]:
    """Whether the lists name each of `total` sequences once."""
    firsts = np.array([0, *accumulate(instances)])
    times = np.zeros(total + 1, np.uint8)  # the last one stands for numbers that there are not
    for numbers in listed:
        if numbers.shape[1] == 2:  # shard and row
            inside = (numbers[:, 0] >= 0) & (numbers[:, 0] < len(instances))
            numbers = np.where(inside, firsts[np.where(inside, numbers[:, 0], 0)] + numbers[:, 1], total)
        numbers = numbers.ravel()
        numbers = np.where((numbers < 0) | (numbers > total), total, numbers)
        np.add.at(times, numbers, 1)
    wrong = int((times[:-1] != 1).sum())
    return [f"indices: expected each of {total} sequences once, found {wrong} lost or repeated"] if wrong else []


def _sample_problems(folder: Path, form: Layout, counts: Mapping[str, Any]) -> list[str]:
    """Packed rows: as many a file as can be, each with at most three sequences and no more tokens than a row has."""
    names = [form.train_name(number, counts["shards"]) for number in range(counts["shards"])]
    longest, found, rows = counts["recipe"]["max_seq_length"], [], []
    for name in names:
        try:
            with h5py.File(folder / name) as file:
                lengths = Ragged.of_rows(file[LENGTHS][:])
        except (OSError, KeyError, ValueError) as error:
            found.append(f"{name}: expected {LENGTHS}, found {error}")
            continue
        rows.append(len(lengths))
        for what, wrong in (
            (f"1 to {MOST} sequences", (lengths.lengths < 1) | (lengths.lengths > MOST)),
            (f"at most {longest} tokens", lengths.sums() > longest),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                found.append(f"{name}: expected {what} a row, found other in {wrong.sum()} rows, such as row {row}")
    if rows != shards.sizes(counts["samples"], counts["shards"])[::-1]:
        found.append(f"train: expected {counts['samples']} samples, as many in each file as can be, found {sum(rows)}")
    return found
