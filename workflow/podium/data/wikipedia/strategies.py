"""Which lengths share a sample: from how many sequences there are of each length to as few samples as can be.

NVIDIA solves this by non-negative least squares in floating point, whose result depends on the library and the machine
(training_results_v3.0@63e326c4 NVIDIA bert packed_data/generate_packing_strategy.py). Here it is a greedy choice in
whole numbers, the same everywhere, and about as dense: the longest sequence left is joined by one or two that fill its
sample best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST = 3  # sequences in a sample; NVIDIA's trainer has room for so many labels
_SHARES = range(50, 101)  # per cent of the room that the longer companion should take; the best of them is kept


@dataclass(frozen=True)
class Strategies:
    """Row i of `lengths` shares a sample, `samples[i]` times over."""

    lengths: np.ndarray  # (S, 3) int64, ascending; zeros in front where there are fewer
    samples: np.ndarray  # (S,) int64


def solve(histogram: np.ndarray) -> Strategies:
    """Strategies that use each sequence once. `histogram[l]` sequences have length l, and none is longer than a sample:
    its last index. The rows are sorted.
    """
    found = min((_solve(histogram, share) for share in _SHARES), key=lambda strategies: strategies.samples.sum())
    rows = np.lexsort(found.lengths.T[::-1])
    return Strategies(found.lengths[rows], found.samples[rows])


def _solve(histogram: np.ndarray, share: int) -> Strategies:
    left, rows, samples = histogram.astype(np.int64), [], []
    for longest in range(len(histogram) - 1, 0, -1):
        while left[longest]:
            left[longest] -= 1
            lengths = [*_companions(left, longest, len(histogram) - 1 - longest, share), longest]
            left[longest] += 1
            times = min(left[length] // lengths.count(length) for length in set(lengths))
            for length in lengths:
                left[length] -= times
            rows.append([0] * (MOST - len(lengths)) + lengths)
            samples.append(times)
    return Strategies(np.array(rows, np.int64).reshape(-1, MOST), np.array(samples, np.int64))


def _companions(left: np.ndarray, longest: int, room: int, share: int) -> list[int]:
    """At most two lengths that are left, none above `longest`, that fill `room` best; ascending."""
    lengths = np.arange(len(left))
    first = np.flatnonzero(left[: min(room, longest) + 1])
    if not len(first):
        return []
    below = np.maximum.accumulate(np.where(left > 0, lengths, 0))  # the greatest length left that is not above this one
    second = below[np.minimum(first, room - first)]
    alone = (second == first) & (left[first] < 2)  # one sequence cannot be taken twice
    second[alone] = below[first[alone] - 1]
    # The fullest; of these the one that shares the room as it should; of these the one with the longer first.
    off = np.abs(100 * first - share * room)
    best = np.lexsort((first, -off, first + second))[-1]
    return [int(length) for length in (second[best], first[best]) if length]
