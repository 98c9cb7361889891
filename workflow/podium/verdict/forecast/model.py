"""What a result will be, from its first runs: the statistics of `podium forecast`.

The remaining runs are drawn many times, and every time the finished result is scored as the rules say.

- The convergence point of a run (epochs or samples) is log-normal. Its spread between runs is that of the reference,
  as if it had been seen in WEIGHT runs, and that of the runs so far. Its centre is that of the runs so far, and that of
  the reference where there is one for this batch size: compliant implementations converge like it, give or take APART.
- Points lie on the grid of evaluations: a run ends with an evaluation.
- Minutes are points times a rate; the rate's spread is RATE, as if seen in WEIGHT runs, and that of the runs so far.
- The share of runs that miss their target has a beta distribution: MISSED, as published, and the runs so far.

The constants were chosen over the published rounds 1.0, 2.0, 3.0, 4.0 and 5.1 (`forecast_history` has the check): of
1045 results 93 in 100 intervals held, 89 to 95 in each round; 89 to 95 from one to seven known runs, 97 from nine of
ten, 83 from twenty of forty. Runs that come out sorted, or change as they go on, break the rule that all are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podium.verdict.official.rcp import Reference

DRAWS = 4000
INSIDE = 0.9  # the share of results that an interval is to hold
WEIGHT = 4  # runs that what is known beforehand is worth
SPREAD = 0.03  # relative, between the convergence points of runs, where there is no reference
LEAST_SPREAD = 0.01  # references of few or equal points would promise too much
RATE = 0.006  # relative, between the minutes per epoch of runs on one system
APART = 0.1  # relative, between the mean of a result and of its reference
MISSED = (0.15, 10.0)  # beta distribution of the share of runs that miss their target: 1.5 %, as published


@dataclass(frozen=True)
class Seen:
    """The runs so far. `minutes` and `points` are those of the runs that converged, in the same order; `step` is what
    lies between two evaluations, in the unit of the points, 0 where it is not known."""

    minutes: tuple[float, ...]
    points: tuple[float, ...]
    failed: int
    step: float = 0.0

    @property
    def runs(self) -> int:
        return len(self.minutes) + self.failed


@dataclass(frozen=True)
class Interval:
    """Where a number lies with the probability INSIDE, and its median."""

    low: float
    middle: float
    high: float

    def stretched(self, factor: float) -> Interval:
        """Wider by a factor around the median, on a logarithmic scale."""
        low = self.middle * (self.low / self.middle) ** factor
        return Interval(low, self.middle, self.middle * (self.high / self.middle) ** factor)


@dataclass(frozen=True)
class Forecast:
    """What the finished result will be. Intervals hold if it converges; None where nothing can be said.

    `converges`: no more runs miss the target than may; `accepted`: if it converges, the RCP test passes.
    `score` is in minutes, `scaled` with the RCP scaling.
    """

    converges: float
    accepted: float | None
    score: Interval | None
    scaled: Interval | None


def forecast(
    seen: Seen, required: int, dropped: int, reference: Reference | None, fastest: float | None, own: bool = True
) -> Forecast:
    """Forecast a result of `required` runs, of which the olympic mean drops `dropped` at either end.

    `reference` and `fastest` (the lowest mean that is accepted) are in the unit of the points; `own` says that the
    reference is one for this batch size. The same input gives the same answer.
    """
    draw = np.random.default_rng(1)
    remaining = max(0, required - seen.runs)
    misses = _misses(seen, remaining, draw)
    failed = seen.failed + misses.sum(axis=1)
    good = failed <= dropped
    converges = float(good.mean())
    if not seen.minutes or not good.any():
        return Forecast(converges, None, None, None)
    points = _points(seen, remaining, reference, own, draw)
    rates = _alike(np.log(seen.minutes) - np.log(seen.points), RATE, remaining, draw)
    minutes = _olympic(seen.minutes, np.exp(rates) * points, misses, seen.failed, dropped)[good]
    mean = _olympic(seen.points, points, misses, seen.failed, dropped)[good]
    if reference is None or fastest is None:
        return Forecast(converges, None, _interval(minutes), None)
    passed = mean >= fastest
    scaled = minutes * np.maximum(1.0, reference.mean / mean)
    accepted = float(passed.mean())
    return Forecast(converges, accepted, _interval(minutes), _interval(scaled[passed]) if passed.any() else None)


def may_fail(seen: Seen, required: int, dropped: int) -> int:
    """How many of the remaining runs may miss their target before the result is lost."""
    return max(0, min(dropped - seen.failed, required - seen.runs))


def _points(
    seen: Seen, remaining: int, reference: Reference | None, own: bool, draw: np.random.Generator
) -> np.ndarray:
    spread = max(LEAST_SPREAD, reference.deviation / reference.mean) if reference else SPREAD
    centre = float(np.log(reference.mean)) if reference and own else None
    points = np.exp(_alike(np.log(seen.points), spread, remaining, draw, centre))
    if seen.step:
        points = seen.points[0] + seen.step * np.round((points - seen.points[0]) / seen.step)
    return np.maximum(points, min(seen.points) / 100)


def _alike(
    known: Sequence[float], spread: float, count: int, draw: np.random.Generator, centre: float | None = None
) -> np.ndarray:
    """DRAWS times `count` more values like the known ones, by a normal distribution of unknown centre and spread."""
    known = np.asarray(known)
    freedom = WEIGHT + len(known) - 1
    squares = WEIGHT * spread**2 + ((known - known.mean()) ** 2).sum()
    variance = squares / draw.chisquare(freedom, (DRAWS, 1))
    precision = len(known) / variance
    mean = known.mean()
    if centre is not None:
        mean = (precision * mean + centre / APART**2) / (precision + 1 / APART**2)
        precision = precision + 1 / APART**2
    middle = mean + draw.standard_normal((DRAWS, 1)) / np.sqrt(precision)
    return np.clip(middle + np.sqrt(variance) * draw.standard_normal((DRAWS, count)), -50, 50)


def _misses(seen: Seen, remaining: int, draw: np.random.Generator) -> np.ndarray:
    share = draw.beta(MISSED[0] + seen.failed, MISSED[1] + len(seen.minutes), (DRAWS, 1))
    return draw.random((DRAWS, remaining)) < share


def _olympic(known: Sequence[float], drawn: np.ndarray, misses: np.ndarray, failed: int, dropped: int) -> np.ndarray:
    """The olympic mean of every draw; a run that misses its target is the slowest."""
    before = np.broadcast_to(np.array([*known, *[np.inf] * failed]), (DRAWS, len(known) + failed))
    runs = np.sort(np.concatenate([before, np.where(misses, np.inf, drawn)], axis=1), axis=1)
    return runs[:, dropped : runs.shape[1] - dropped].mean(axis=1)


def _interval(values: np.ndarray) -> Interval:
    outside = (1 - INSIDE) / 2
    return Interval(*(float(value) for value in np.quantile(values, [outside, 0.5, 1 - outside])))
