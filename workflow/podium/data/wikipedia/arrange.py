"""The instances of all parts in another order, within bounded memory.

An order is a file `order.npy`, uint32 (2, N): where each row comes from among the rows of all parts, and where each of
these goes. Each part is first sorted by where its rows go, so that a file of the layout is one run of each part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import h5py
import numpy as np

from podium.data.formats import npy
from podium.data.tasks import Run
from podium.data.wikipedia import store
from podium.data.wikipedia.ragged import Instances, joined
from podium.data.wikipedia.shards import Shards


def write_order(comes_from: np.ndarray, to: Path) -> None:
    """Write an order, given as where each row comes from: (N,) uint32."""
    goes_to = np.empty_like(comes_from)
    goes_to[comes_from] = np.arange(len(comes_from), dtype=np.uint32)
    npy.write(to, (2, len(comes_from)), np.uint32, [comes_from, goes_to])


def comes_from(order: Path, start: int, stop: int) -> np.ndarray:
    """Where the rows from `start` to before `stop` of the order come from: (stop - start,) int64."""
    return np.load(order, mmap_mode="r")[0, start:stop].astype(np.int64)


def sort(run: Run, shards: Shards, order: Path, to: Path) -> Shards:
    """The shards with each of their parts in the order of where its rows go; the sorted ones are written into `to`,
    unless they are there.
    """
    in_order = replace(shards, parts=[to / part.name for part in shards.parts])
    moves = zip(shards.parts, in_order.parts, shards.firsts, strict=True)
    run([partial(_sort, *move, order, shards.bounds) for move in moves], "sort")
    return in_order


def _sort(part: Path, to: Path, first: int, order: Path, bounds: Sequence[int]) -> None:
    """Rewrite a stored part, the first row of which is row `first` of all, in the order of where its rows go."""
    if to.exists():
        return
    instances = store.read(part)
    goes_to = np.load(order, mmap_mode="r")[1, first : first + len(instances)]
    rows = np.argsort(goes_to)
    store.write(to, instances.take(rows), goes_to=goes_to[rows], runs=np.searchsorted(goes_to[rows], bounds))


def listed(path: Path, width: int) -> np.ndarray:
    """What the list beside a file says of where its rows come from: (N, width) int64.

    Raises OSError or ValueError for a list that is none.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, list) or not all(isinstance(row, list) for row in content):
        raise ValueError(f"{path.name} is no list of lists")
    return np.array(list(chain.from_iterable(content)), np.int64).reshape(-1, width)


def gathered(shards: Shards, number: int) -> Instances:
    """The instances of one file, of shards whose parts are sorted."""
    runs, goes_to = [], []
    for part in shards.parts:
        with h5py.File(part) as file:
            start, stop = file["runs"][number : number + 2]
            goes_to.append(file["goes_to"][start:stop])
            runs.append(store.read_rows(file, start, stop))
    return joined(runs).take(np.argsort(np.concatenate(goes_to)))
