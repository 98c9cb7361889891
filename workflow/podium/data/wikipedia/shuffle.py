"""The shuffle over all shards.

The order is NVIDIA's: Random(24).shuffle of all (shard, row) pairs, cut by the shards' old sizes
(training_results_v3.0@63e326c4 NVIDIA bert shuffle_indices.py). There every shard is held in memory by each of 50
processes.
"""

from __future__ import annotations

import json
import random
from array import array
from functools import partial
from pathlib import Path

import numpy as np

from podium import files
from podium.data.tasks import Run
from podium.data.wikipedia import arrange
from podium.data.wikipedia.layouts import SHUFFLED, Writer
from podium.data.wikipedia.shards import Shards

SEED = 24


def write(run: Run, shards: Shards, work: Path, writer: Writer) -> None:
    """Write the files with the instances shuffled, and beside their folder the lists of where each row comes from.

    What is needed on the way is kept in `work`; files that are there stay.
    """
    order = work / "order.npy"
    if not order.exists():
        arrange.write_order(shuffled(sum(shards.file_sizes)), order)
    in_order = arrange.sort(run, shards, order, work / "sorted")
    run([partial(_write, in_order, number, order, writer) for number in range(len(shards.files))], "shards")


def shuffled(count: int) -> np.ndarray:
    """The numbers below `count` after `random.shuffle`: (count,) uint32."""
    drawn = array("I", range(count))
    random.Random(SEED).shuffle(drawn)
    return np.frombuffer(drawn, np.uint32)


def _write(shards: Shards, number: int, order: Path, writer: Writer) -> None:
    """Write a file from sorted parts, and its list; nothing where both are there.

    The list is NVIDIA's: [[shard, row], …].
    """
    to, bounds = shards.files[number], shards.bounds
    listed = to.parents[1] / SHUFFLED.listed.format(number)
    if to.exists() and listed.exists():
        return
    rows = arrange.comes_from(order, bounds[number], bounds[number + 1])
    from_shard = np.searchsorted(bounds, rows, "right") - 1
    pairs = np.stack([from_shard, rows - np.asarray(bounds)[from_shard]], 1)
    files.write_text(listed, json.dumps(pairs.tolist()))
    instances = arrange.gathered(shards, number)
    writer(to, len(instances), [instances])
