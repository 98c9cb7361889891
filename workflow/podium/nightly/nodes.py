"""What a node does to a run: effects to be taken off before a night is judged, and nodes that are slow by themselves.

A run is compared with the median of its night, so a change that all nodes share leaves no trace here, and a change of
one node none in the series. That needs nights with runs on three nodes or more; where each run takes all nodes, or a
night has one, node and night cannot be told apart, and nothing is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from podium.nightly.detect import BUDGET

KNOWN = 24  # runs of a node that tell its effect
SHRINK = 4  # runs' worth of belief that a node is like the others
WINDOWS = (3, 6, 12, 24)  # runs
SPREAD = 60  # nights that tell how runs scatter


@dataclass(frozen=True)
class Slow:
    """A node that is slower than the others: logarithms of the ratio, its 95 % interval, and the night it began."""

    node: int
    effect: float
    low: float
    high: float
    since: int
    runs: int


@dataclass(frozen=True)
class Compared:
    """Runs held against the median of their night; arrays (runs,) in the order of the runs.

    `residual` is nan where the night has no three nodes or the run's node is not one; `spread` is the standard
    deviation of a run as known that night.
    """

    night: np.ndarray
    node: np.ndarray
    residual: np.ndarray
    spread: np.ndarray


def compare(night: np.ndarray, node: np.ndarray, value: np.ndarray) -> Compared:
    """Hold every run against its night: `night` ascends, `node` is a number or -1 for several, `value` a logarithm."""
    size = len(night)
    if not size:
        return Compared(night, node, np.zeros(0), np.zeros(0))
    _, first, which, count = np.unique(night, return_index=True, return_inverse=True, return_counts=True)
    ordered = value[np.lexsort((value, night))]
    middle = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    pairs = np.unique(np.stack([which, node]), axis=1)
    nodes = np.bincount(pairs[0][pairs[1] >= 0], minlength=len(first))
    usable = (nodes >= 3)[which] & (node >= 0)
    residual = np.where(usable, value - middle[which], np.nan)
    squares = np.bincount(which, np.where(usable, residual, 0.0) ** 2)
    nightly = np.where(nodes >= 3, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    return Compared(night, node, residual, _median_so_far(nightly)[which])


def effects(runs: Compared) -> np.ndarray:
    """The effect of each run's node as known before that run (a log; 0 where nothing is known)."""
    order, usable, begin, before = _by_node(runs)
    bound = 4 * runs.spread[order][usable]
    sums = np.concatenate([[0.0], np.cumsum(np.clip(runs.residual[order][usable], -bound, bound))])
    known = np.minimum(before - begin, KNOWN)
    effect = np.zeros(len(order))
    effect[order] = (sums[before] - sums[before - known]) / (known + SHRINK)
    return np.where(runs.node >= 0, effect, 0.0)


def slow(series: Sequence[Compared], nodes: int, ignore: float) -> list[Slow]:
    """The nodes that are slower than the others by more than `ignore` (a log) as of the last night.

    `series` are the same nodes' runs of independent benchmarks, in logs where more is worse; `nodes` their number.
    """
    runs = _pooled(series)
    order, usable, _, _ = _by_node(runs)
    order = order[usable]
    found = []
    for node in np.unique(runs.node[order]):
        mine = order[runs.node[order] == node]
        residual, spread = runs.residual[mine], runs.spread[mine]
        score = suffixes(residual, spread)[-64:]
        lengths = np.arange(min(len(mine), 64), 0, -1)
        usual = np.isin(lengths, WINDOWS)
        if not usual.any() or score[usual].max() < bar(nodes):
            continue
        length = int(lengths[score.argmax()])
        middle = float(np.median(residual[-length:]))
        error = 1.96 * float(np.median(spread[-length:])) * math.sqrt(math.pi / 2 / length)  # of a median
        if middle >= ignore:
            since = int(runs.night[mine][-length])
            found.append(Slow(int(node), middle, middle - error, middle + error, since, length))
    return sorted(found, key=lambda item: -item.effect)


def suffixes(residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """For each run of a node: the standardised mean of the residuals from it to the last one."""
    standard = np.clip(residual / spread, -3, 3)[::-1]
    return (np.cumsum(standard) / np.sqrt(np.arange(1, len(standard) + 1)))[::-1]


def bar(nodes: int) -> float:
    """What the score of a node must pass where `nodes` nodes are watched: as rare as a false alarm of all series."""
    return NormalDist().inv_cdf(1 - BUDGET / 200 / max(nodes, 1) / len(WINDOWS))


def _pooled(series: Sequence[Compared]) -> Compared:
    """The runs of several series as those of one, in the order of their nights."""
    night = np.concatenate([item.night for item in series]) if series else np.zeros(0, int)
    order = np.argsort(night, kind="stable")
    columns = (
        np.concatenate([getattr(item, name) for item in series])[order] for name in ("node", "residual", "spread")
    )
    return Compared(night[order], *columns) if series else Compared(night, night, night * 1.0, night * 1.0)


def _by_node(runs: Compared) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Runs by node, in their order; which of them have a residual; how many such runs there are before the node's first
    and before each run."""
    order = np.argsort(runs.node, kind="stable")
    usable = np.isfinite(runs.residual[order])
    before = np.cumsum(usable) - usable
    node = runs.node[order]
    first = np.searchsorted(node, node)
    return order, usable, before[first], before


def _median_so_far(values: np.ndarray) -> np.ndarray:
    """The median of the last SPREAD values up to each place, nan left out; the first ones for what is before them."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.ones(len(values))
    padded = np.concatenate([np.full(SPREAD - 1, np.median(values[known[:8]])), values[known]])
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, SPREAD), axis=1)
    place = np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)
    return np.maximum(medians[place], 1e-12)
