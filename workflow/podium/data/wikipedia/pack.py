"""Up to three sequences in one row, so that little of it is padding: NVIDIA's packed training files.

The files are those of training_results_v3.0@63e326c4 NVIDIA bert packed_data/{generate_packing_strategy,
create_packed_trainset}.py. There the order is drawn without a seed, so that nobody can make the same files again; here
the sequences, and then the samples, are shuffled with the seed of the other shuffle. Which lengths go together:
strategies.py.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from podium import files
from podium.data.formats import npy
from podium.data.tasks import Run
from podium.data.wikipedia import arrange, shuffle, store
from podium.data.wikipedia.layouts import PACKED, write_packed
from podium.data.wikipedia.ragged import BLOCK
from podium.data.wikipedia.shards import Shards, sizes
from podium.data.wikipedia.strategies import Strategies, solve

STRATEGIES = "strategies.csv"


def write(run: Run, shards: Shards, longest: int, work: Path) -> dict[str, int]:
    """Write the files, with as many samples each as can be, the lists of their sequences and the table of strategies.

    How many sequences go into each file of `shards` is decided here; no sequence is longer than `longest`. What is
    needed on the way is kept in `work`; files that are there stay. Returns how many samples and strategies there are.
    Raises BadInput when there are more files than samples.
    """
    order, per_sample = work / "order.npy", work / "per_sample.npy"
    counts = sum(np.bincount(store.lengths(part), minlength=longest + 1) for part in shards.parts)
    strategies = solve(counts)
    samples = sizes(int(strategies.samples.sum()), len(shards.files))[::-1]  # there the larger files come first
    if not (order.exists() and per_sample.exists()):
        drawn = _drawn(strategies)
        npy.write(per_sample, (len(drawn),), np.uint8, [(strategies.lengths > 0).sum(1)[drawn]])
        arrange.write_order(_order(shards, counts, strategies.lengths, drawn), order)
    files.write_text(shards.files[0].parents[1] / STRATEGIES, _table(strategies))
    sequences = np.load(per_sample, mmap_mode="r")
    spans = [slice(*pair) for pair in pairwise(accumulate(samples, initial=0))]
    cut = replace(shards, file_sizes=[int(sequences[span].sum()) for span in spans])
    in_order = arrange.sort(run, cut, order, work / "sorted")
    run([partial(_write, in_order, number, order, per_sample, span) for number, span in enumerate(spans)], "shards")
    return {"samples": sum(samples), "strategies": len(strategies.samples)}


def _drawn(strategies: Strategies) -> np.ndarray:
    """The number of the strategy of each sample, shuffled: (samples,) uint32."""
    numbers = np.repeat(np.arange(len(strategies.samples), dtype=np.uint32), strategies.samples)
    drawn = array("I", numbers.tobytes())
    random.Random(shuffle.SEED).shuffle(drawn)
    return np.frombuffer(drawn, np.uint32)


def _order(shards: Shards, counts: np.ndarray, lengths: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Which sequence, by its number among those of all parts, comes at each place of the samples: (N,) uint32.

    A place that wants a length gets the next sequence of that length, in the order of the shuffle.
    """
    shuffled = shuffle.shuffled(sum(shards.part_sizes))
    of_all = np.concatenate([store.lengths(part) for part in shards.parts])
    by_length, order = np.empty_like(shuffled), np.empty_like(shuffled)
    blocks = (shuffled[start : start + BLOCK] for start in range(0, len(shuffled), BLOCK))
    done = 0
    for places in _sorted_places((of_all[block] for block in blocks), counts):
        by_length[places] = shuffled[done : done + len(places)]
        done += len(places)
    samples = (lengths[drawn[start : start + BLOCK]] for start in range(0, len(drawn), BLOCK))
    done = 0
    for places in _sorted_places((block[block > 0] for block in samples), counts):
        order[done : done + len(places)] = by_length[places]
        done += len(places)
    return order


def _sorted_places(blocks: Iterable[np.ndarray], counts: np.ndarray) -> Iterator[np.ndarray]:
    """Where each value goes in a stable sort of all blocks, which have counts[v] values v: block by block."""
    free = np.cumsum(counts) - counts  # the next place of each value
    for block in blocks:
        order = np.argsort(block, kind="stable")
        in_order = block[order]
        places = np.empty(len(block), np.int64)
        places[order] = free[in_order] + np.arange(len(block)) - np.searchsorted(in_order, in_order)
        free += np.bincount(block, minlength=len(free))
        yield places


def _write(shards: Shards, number: int, order: Path, per_sample: Path, span: slice) -> None:
    """Write a file from sorted parts, and its list: of each sample the numbers of its sequences; nothing where both are
    there.
    """
    to, bounds = shards.files[number], shards.bounds
    listed = to.parents[1] / PACKED.listed.format(number)
    if to.exists() and listed.exists():
        return
    sequences = np.load(per_sample, mmap_mode="r")[span].astype(np.int64)
    rows = iter(arrange.comes_from(order, bounds[number], bounds[number + 1]).tolist())
    samples = [[next(rows) for _ in range(count)] for count in sequences.tolist()]
    files.write_text(listed, json.dumps(samples))
    write_packed(to, arrange.gathered(shards, number), sequences)


def _table(strategies: Strategies) -> str:
    """How often each combination of lengths is a sample, the shortest first; 0 where it has fewer than three."""
    rows = zip(strategies.samples.tolist(), strategies.lengths.tolist(), strict=True)
    return "samples,first,second,third\n" + "".join(f"{count},{a},{b},{c}\n" for count, (a, b, c) in rows)
