"""The shuffle over all shards, within bounded memory.

The order is NVIDIA's: Random(24).shuffle of all (shard, row) pairs, cut by the shards' old sizes
(training_results_v3.0@63e326c4 NVIDIA bert shuffle_indices.py). There every shard is held in memory by each of 50
processes. Here each part is first sorted by where its rows go, so that a shard is one run of each part.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from podium import files
from podium.data.formats import npy
from podium.data.wikipedia import store
from podium.data.wikipedia.layouts import Writer
from podium.data.wikipedia.ragged import joined
from podium.data.wikipedia.shards import Shards
from podium.data.wikipedia.tasks import Run

SEED = 24


def write(run: Run, shards: Shards, work: Path, writer: Writer) -> None:
    """Write the files with the instances shuffled, and beside their folder the lists of where each row comes from.

    What is needed on the way is kept in `work`; files that are there stay.
    """
    order = work / "order.npy"
    in_order = replace(shards, parts=[work / "sorted" / part.name for part in shards.parts])
    write_order(sum(shards.file_sizes), order)
    moves = zip(shards.parts, in_order.parts, shards.firsts, strict=True)
    run([partial(_sort, *move, order, shards.bounds) for move in moves], "sort")
    run([partial(_write, in_order, number, order, writer) for number in range(len(shards.files))], "shards")


def write_order(count: int, to: Path) -> None:
    """Write the shuffle of `count` rows as .npy, uint32 (2, count): where each row comes from, and where each goes."""
    if to.exists():
        return
    drawn = array("I", range(count))
    random.Random(SEED).shuffle(drawn)
    comes_from = np.frombuffer(drawn, np.uint32)
    goes_to = np.empty_like(comes_from)
    goes_to[comes_from] = np.arange(count, dtype=np.uint32)
    npy.write(to, (2, count), np.uint32, [comes_from, goes_to])


def _sort(part: Path, to: Path, first: int, order: Path, bounds: Sequence[int]) -> None:
    """Rewrite a stored part, the first row of which is row `first` of all, in the order of where its rows go."""
    if to.exists():
        return
    instances = store.read(part)
    goes_to = np.load(order, mmap_mode="r")[1, first : first + len(instances)]
    rows = np.argsort(goes_to)
    store.write(to, instances.take(rows), goes_to=goes_to[rows], runs=np.searchsorted(goes_to[rows], bounds))


def _write(shards: Shards, number: int, order: Path, writer: Writer) -> None:
    """Write a file from sorted parts, and its list; nothing where both are there.

    The list is NVIDIA's shard_indices_%05d.lst: [[shard, row], …] as JSON.
    """
    to, bounds = shards.files[number], shards.bounds
    listed = to.parents[1] / "indices" / f"shard_indices_{number:05d}.lst"
    if to.exists() and listed.exists():
        return
    rows = np.load(order, mmap_mode="r")[0, bounds[number] : bounds[number + 1]].astype(np.int64)
    from_shard = np.searchsorted(bounds, rows, "right") - 1
    pairs = np.stack([from_shard, rows - np.asarray(bounds)[from_shard]], 1)
    files.write_text(listed, json.dumps(pairs.tolist()))

    runs, goes_to = [], []
    for part in shards.parts:
        with h5py.File(part) as file:
            start, stop = file["runs"][number : number + 2]
            goes_to.append(file["goes_to"][start:stop])
            runs.append(store.read_rows(file, start, stop))
    instances = joined(runs).take(np.argsort(np.concatenate(goes_to)))
    writer(to, len(instances), [instances])
