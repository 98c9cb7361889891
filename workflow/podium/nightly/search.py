"""Bisection where every measurement is noisy: what to measure next, or what is known. Pure: it runs nothing.

Both ends are measured first, in turns, until they differ beyond doubt. Then the candidate in the middle is measured
until it is beyond doubt nearer to one end than to the other (a group-sequential t test against the point half way, with
the uncertainty of both ends in it). All decisions together are wrong in at most 5 % of searches. The whole state is
what was measured: asked again with the same values it says the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LOOKS = 5  # independent tests that looking after every run amounts to, by simulation
ENDS = 3  # runs of both ends before anything is said
WRONG = 0.05  # of searches
POWER = 1.28  # nine times in ten
FAILURES = 2  # failed runs in a row after which a candidate cannot be judged

FIRST_BAD, SAME, NOISE, AMONG = "first bad", "no difference", "noise", "among"


@dataclass(frozen=True)
class Measure:
    """The candidate of which one more run is needed, and why."""

    candidate: int
    why: str


@dataclass(frozen=True)
class Answer:
    """The end of a search. `kind` is FIRST_BAD, SAME (both ends), NOISE (undecided), AMONG (those between cannot run).

    `last_good` and `first_bad` bound the change. `percent` with its 95 % interval is the change between them (between
    the ends, where nothing was found), `share` its part of the change between the ends. `runs` are needed of each
    candidate for an answer, where noise forbade one.
    """

    kind: str
    last_good: int
    first_bad: int
    percent: float
    low: float
    high: float
    share: float | None = None
    runs: int | None = None


@dataclass(frozen=True)
class Values:
    """The logarithms measured of each candidate, outliers pulled in, and their common standard deviation."""

    of: Mapping[int, np.ndarray]
    sigma: float
    freedom: int

    def mean(self, candidate: int) -> float:
        return float(self.of[candidate].mean())

    def share(self, candidate: int) -> float:
        """The variance of its mean, in units of sigma squared."""
        return 1 / len(self.of[candidate])


def step(count: int, values: Mapping[int, Sequence[float | None]], ignore: float, most: int) -> Measure | Answer:
    """What comes next for `count` candidates, the first good and the last bad.

    `values` are logarithms where more is worse, None for a run that failed; `ignore` is the smallest change that
    matters (a log); `most` the runs of one candidate that are spent at most.
    """
    known = pooled(values)
    last = count - 1
    runs = {index: len(found) for index, found in known.of.items()}
    for end in sorted((0, last), key=lambda index: runs.get(index, 0)):
        if runs.get(end, 0) < ENDS:
            if broken(values.get(end, ())):
                return _between(known, 0, last, AMONG)
            return Measure(end, "both ends are measured first")
    if not _differ(known, last, ignore):
        if min(runs[0], runs[last]) < most and not _same(known, last, ignore):
            return Measure(min((0, last), key=lambda index: runs[index]), "the ends do not differ beyond doubt yet")
        kind = SAME if _same(known, last, ignore) else NOISE
        return _between(known, 0, last, kind, runs=needed(known, max(_change(known, 0, last)[0], ignore), halves=1))
    return _halve(count, values, known, most)


def _halve(count: int, values: Mapping[int, Sequence[float | None]], known: Values, most: int) -> Measure | Answer:
    last = count - 1
    low, high = 0, last
    while high - low > 1:
        inside = [index for index in range(low + 1, high) if not broken(values.get(index, ()))]
        if not inside:
            return _between(known, low, high, AMONG)
        middle = min(inside, key=lambda index: abs(2 * index - low - high))
        runs = len(known.of.get(middle, ()))
        side = _side(known, middle, last, steps=max(1, math.ceil(math.log2(last)))) if runs else 0
        if side == 0 and runs >= most:
            return _between(known, low, high, NOISE, runs=needed(known, _change(known, 0, last)[0], halves=2))
        if side == 0:
            ends = min((0, last), key=lambda index: len(known.of[index]))
            tired = runs > 2 * len(known.of[ends])  # then it is the ends that are not known well enough
            return Measure(ends if tired else middle, "it lies between the ends, no side is sure yet")
        low, high = (middle, high) if side < 0 else (low, middle)
    return _between(known, low, high, FIRST_BAD)


def pooled(values: Mapping[int, Sequence[float | None]]) -> Values:
    """All that was measured; single runs far from the others of their candidate are pulled in to three deviations."""
    of = {index: np.array([value for value in found if value is not None]) for index, found in values.items()}
    of = {index: found for index, found in of.items() if len(found)}
    away = np.concatenate([found - np.median(found) for found in of.values() if len(found) > 2] or [np.zeros(0)])
    bound = 3 * 1.4826 * float(np.median(np.abs(away))) if len(away) >= 6 else math.inf
    bound = bound or math.inf
    kept = {index: np.median(found) + np.clip(found - np.median(found), -bound, bound) for index, found in of.items()}
    freedom = sum(len(found) - 1 for found in kept.values())
    squares = sum(float(((found - found.mean()) ** 2).sum()) for found in kept.values())
    return Values(kept, math.sqrt(squares / freedom) if freedom else math.inf, freedom)


def broken(found: Sequence[float | None]) -> bool:
    """Whether a candidate has only failed, often enough."""
    return len(found) >= FAILURES and all(value is None for value in found)


def needed(known: Values, change: float, halves: int) -> int:
    """Runs of each candidate with which a change of that size (a log) would be decided nine times in ten."""
    bar = _quantile(WRONG / 4 / LOOKS, max(known.freedom, 30)) + POWER
    spread = 2.0 if halves == 1 else 1.5  # of the difference of two means; of a mean to the middle of two others
    return math.ceil(spread * (bar * known.sigma * halves / max(change, 1e-9)) ** 2)


def _differ(known: Values, last: int, ignore: float) -> bool:
    """Whether the last candidate is worse than the first beyond doubt, and by more than is ignored."""
    change, error = _change(known, 0, last)
    return change >= ignore and change > _quantile(WRONG / LOOKS, known.freedom) * error


def _same(known: Values, last: int, ignore: float) -> bool:
    """Whether a change that matters can be ruled out."""
    change, error = _change(known, 0, last)
    return change + _quantile(WRONG / LOOKS, known.freedom) * error < ignore


def _side(known: Values, middle: int, last: int, steps: int) -> int:
    """-1 where a candidate is like the good end, 1 where it is like the bad one, 0 while that is not sure.

    One that is like neither is bad: the first change is what is looked for, and the rest of it is told.
    """
    sure = _quantile(WRONG / steps / LOOKS, known.freedom)
    half = (known.mean(0) + known.mean(last)) / 2
    variance = known.share(middle) + (known.share(0) + known.share(last)) / 4
    away = known.mean(middle) - half
    if abs(away) > sure * known.sigma * math.sqrt(variance):
        return 1 if away > 0 else -1
    if len(known.of[middle]) < 2 * ENDS:
        return 0
    (above, error), (below, other) = _change(known, 0, middle), _change(known, middle, last)
    return 1 if above > sure * error and below > sure * other else 0


def _change(known: Values, one: int, other: int) -> tuple[float, float]:
    """The difference of two candidates and its standard error, in logs."""
    return known.mean(other) - known.mean(one), known.sigma * math.sqrt(known.share(one) + known.share(other))


def _between(known: Values, low: int, high: int, kind: str, runs: int | None = None) -> Answer:
    if low not in known.of or high not in known.of:
        return Answer(kind, low, high, math.nan, math.nan, math.nan)
    change, error = _change(known, low, high)
    reach = _quantile(0.025, known.freedom) * error
    percents = [100 * math.expm1(value) for value in (change, change - reach, change + reach)]
    last = max(known.of)
    whole = _change(known, 0, last)[0] if 0 in known.of else 0.0
    share = change / whole if kind == FIRST_BAD and whole > 0 else None
    return Answer(kind, low, high, *percents, share=share, runs=runs)


def _quantile(chance: float, freedom: int) -> float:
    """The value that Student's t passes with that chance."""
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1), 1 - chance))
