"""Has the level of a series moved, when, and by how much: sequential, robust, calibrated by simulation.

A series is one measure of one benchmark on one system, a value a run. Every night is judged with what was known by then
and never again, so that a verdict of the past is the same whenever it is computed. All is done on logarithms, with the
sign that makes more worse; effects are therefore ratios.

1. A night's centre is the trimmed mean of its runs, after the known effects of their nodes (nodes.py) are taken off.
2. The noise is the winsorised standard deviation of the nights around the running median of their level, over the last
   `MEMORY` nights; it knows how many it has seen (Student's t) and how much a night takes after the one before (lag-1
   correlation).
3. The newest 2, 3, 4 … 32 nights are compared with all nights of the level before them: a scan for a shift of unknown
   age (generalised likelihood ratio; Lai, JRSS B 57, 1995, on sequential change-point detection).
   Short windows find steps, long ones drifts.
4. One night alone never moves a level, and where nights were outliers before, so many in a row are needed as outliers
   would not make by chance.
5. The bar that the scan has to pass grows with the number of series (`threshold`): all of them together give less than
   one false alarm in 200 nights. `make bench-nightly` measures it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

WINDOWS = np.array([2, 3, 4, 6, 9, 14, 21, 32])  # nights
LEAST = 8  # nights before the first verdict
MEMORY = 120  # nights that tell the noise
AROUND = 60  # nights of the running median
CLIP = 0.8  # of the bar is the most that one night can weigh
FLOOR = 1e-6  # of the noise: a measure that never varies has some
OUTLIER = 3.5  # standard deviations
CHANCE = 2e-5  # that outliers and noise together make a window
BUDGET = 0.2  # false alarms expected in 200 nights, over all series
SCAN = 3.0  # how many independent tests the windows of a night amount to, by simulation
SHARED = 0.1  # the part of a run's variance that all runs of a night share, for nights with few runs


@dataclass(frozen=True)
class Level:
    """A stretch of nights with one level, by positions in the series' nights.

    `start` is the estimated first night, `found` the night on which it was told apart; `marked` where it is known to
    have begun there: the first level, and one that a mark began.
    """

    start: int
    found: int
    marked: bool


@dataclass(frozen=True)
class Course:
    """A series seen night by night. Arrays have one entry for each night with data.

    `night` is the position in the calendar, `centre` the trimmed mean of logarithms, `weight` its precision in runs,
    `robust` the same with outliers pulled in, `sigma` the noise of a night of weight 1 as known that night, `phi` its
    lag-1 correlation, `bar` what the scan had to pass then.
    """

    night: np.ndarray
    centre: np.ndarray
    robust: np.ndarray
    weight: np.ndarray
    sigma: np.ndarray
    phi: np.ndarray
    bar: np.ndarray
    levels: tuple[Level, ...]

    def mean(self, first: int, end: int) -> tuple[float, float]:
        """The level over positions first..end-1, and its standard error as known on the last of them."""
        weight = self.weight[first:end]
        total = weight.sum()
        mean = float((self.robust[first:end] * weight).sum() / total)
        error = self.sigma[end - 1] * math.sqrt(inflated(self.phi[end - 1], end - first) / total)
        return mean, float(error)


@functools.lru_cache
def threshold(series: int) -> np.ndarray:
    """What the scan must pass, by degrees of freedom 0..MEMORY, where `series` series are watched together."""
    from scipy.special import stdtrit

    chance = BUDGET / 200 / max(series, 1) / SCAN
    return stdtrit(np.maximum(np.arange(MEMORY + 1) * 0.9 - 1, 1), 1 - chance / 2)


def centres(night: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nights that have runs, the trimmed mean of each, and its weight; `night` must be sorted.

    Of three to seven runs the lowest and the highest are dropped, of more a quarter on both sides.
    """
    value = value[np.lexsort((value, night))]
    nights, first, count = np.unique(night, return_index=True, return_counts=True)
    trim = np.maximum(count // 4, count >= 3)
    middle = value.mean() if len(value) else 0.0  # taken off, so that long histories lose no digits
    sums = np.concatenate([[0.0], np.cumsum(value - middle)])
    low, high = first + trim, first + count - trim
    centre = (sums[high] - sums[low]) / (high - low) + middle
    return nights, centre, 1 / (SHARED + 1 / count)


def follow(night: np.ndarray, value: np.ndarray, marks: Sequence[int] = (), series: int = 1) -> Course:
    """Follow one series through its nights.

    `night` (runs,) are calendar positions in ascending order, `value` (runs,) logarithms where more is worse, `marks`
    the calendar positions from which a new level is known to begin, `series` the number of series watched together.
    """
    night, centre, weight = centres(night, value)
    size = len(night)
    state = _State(centre, weight, threshold(series))
    begins = sorted({0, *np.searchsorted(night, np.asarray(marks, dtype=int)).tolist()} - {size}) if size else []
    levels: list[Level] = []
    for begin, end in itertools.pairwise([*begins, size]):
        levels.append(Level(begin, begin, True))
        start = begin
        while (found := state.advance(start, end)) is not None:
            start = state.onset(start, found)
            levels.append(Level(start, found, False))
    return Course(night, centre, state.robust, weight, state.sigma, state.phi, state.bar, tuple(levels))


def ramp(x: np.ndarray, weight: np.ndarray, days: np.ndarray, sigma: float) -> float | None:
    """The change a day where a ramp (a level, then a steady change to the end) explains `x` clearly better than a step.

    `x` (nights,) are centres, `days` when they were; needs twice LEAST nights.
    """
    if len(x) < 2 * LEAST:
        return None
    total, places = weight.sum(), np.arange(1, len(x) - LEAST // 2)
    x = x - (x * weight).sum() / total

    def gain(shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shapes = shapes - (shapes * weight).sum(axis=1, keepdims=True) / total
        products, squares = (shapes * x * weight).sum(axis=1), (shapes**2 * weight).sum(axis=1)
        return products / squares, products**2 / squares

    since = days[places - 1][:, None]
    slopes, gains = gain(np.maximum(days[None, :] - since, 0.0))
    _, steps = gain((days[None, :] > since).astype(float))
    best = int(gains.argmax())
    return float(slopes[best]) if gains[best] > steps.max() + 6 * sigma**2 else None


class _State:
    """The arrays of one series, filled level by level; a level that proves to have begun earlier is filled anew."""

    def __init__(self, centre: np.ndarray, weight: np.ndarray, bars: np.ndarray) -> None:
        size = len(centre)
        self.x, self.weight, self.bars = centre, weight, bars
        self.residual = np.zeros(size)  # around the running median, of a night of weight 1
        self.kept, self.lag, self.wild = np.zeros(size), np.zeros(size), np.zeros(size)
        self.sigma, self.phi, self.bar = np.full(size, np.inf), np.zeros(size), np.full(size, np.inf)
        self.outliers = np.zeros(size)  # the share of nights that are
        self.robust = centre.copy()  # centres with outliers pulled in

    def advance(self, start: int, end: int) -> int | None:
        """Look at the nights of a level from `start` on; the first one that shows that it has ended."""
        begin, piece = start, 64
        while begin < end:
            stop = min(end, begin + piece)
            self._learn(start, begin, stop)
            found = self._scan(start, begin, stop)
            if found is not None:
                return found
            begin, piece = stop, min(2 * piece, 2048)
        return None

    def _learn(self, start: int, begin: int, stop: int) -> None:
        """Residuals and noise of the nights begin..stop-1 of the level that began at `start`."""
        places = np.arange(begin, stop)
        middle, known = _running_median(self.x, start, places, AROUND)
        opening = places < start + 3
        if opening.any():
            middle[opening] = np.median(self.x[start : start + 3])
        correction = np.where(opening, 1.25, 1 / np.sqrt(1 + 1.57 / np.maximum(known, 1)))
        self.residual[begin:stop] = (self.x[begin:stop] - middle) * np.sqrt(self.weight[begin:stop]) * correction

        # The noise up to and including each night, then what each night weighs by the noise before it.
        size = np.minimum(places + 1, MEMORY)
        spread, seen = _running_median(np.abs(self.residual), 0, places + 1, 60)
        bound = 3 * 1.4826 * (1 + 0.8 / seen) * spread
        self.kept[begin:stop] = np.clip(self.residual[begin:stop], -bound, bound)
        self.lag[begin:stop] = self.kept[begin:stop] * self.kept[np.maximum(places - 1, 0)] * (places > 0)
        square = _running_sum(self.kept**2, begin, stop)
        self.sigma[begin:stop] = np.maximum(np.sqrt(square / size), FLOOR)
        phi = _running_sum(self.lag, begin, stop) / np.maximum(square, 1e-300)
        # One within its error is taken for none, a larger one for somewhat more than it seems: it is biased downwards.
        error = 1.3 / np.sqrt(size)
        self.phi[begin:stop] = np.where(phi > error, np.minimum(phi + 0.15, 0.8), 0.0)
        self.bar[begin:stop] = self.bars[size]

        # What a night is held to was known some nights before: the first nights of a shift must not excuse the next.
        earlier = np.clip(places - 5, min(LEAST, stop) - 1, None)
        self.wild[begin:stop] = np.abs(self.residual[begin:stop]) > OUTLIER * self.sigma[earlier]
        self.outliers[begin:stop] = (_running_sum(self.wild, begin, stop) + 0.3) / (size + 0.6)
        bound = CLIP * self.bar[earlier] * self.sigma[earlier] / np.sqrt(self.weight[begin:stop])
        self.robust[begin:stop] = middle + np.clip(self.x[begin:stop] - middle, -bound, bound)

    def _scan(self, start: int, begin: int, stop: int) -> int | None:
        """The first of the nights begin..stop-1 on which the level that began at `start` is seen to have ended."""
        weight = np.concatenate([[0.0], np.cumsum(self.weight[start:stop])])
        value = np.concatenate([[0.0], np.cumsum(self.weight[start:stop] * (self.robust[start:stop] - self.x[start]))])
        newest = np.arange(begin, stop)[:, None]  # against windows
        edge = newest - WINDOWS + 1  # the first night of each window
        enough = edge >= max(LEAST, start + 2)
        cut = np.maximum(edge, start + 1)
        with np.errstate(divide="ignore", invalid="ignore"):  # windows that do not fit have no score
            score = self._score(weight, value, start, cut, newest)
        over = (np.abs(score) > self.bar[cut - 1]) & enough
        for row, column in zip(*over.nonzero(), strict=True):
            if not self._outliers_do(start, int(cut[row, column]), begin + int(row), score[row, column] > 0):
                return begin + int(row)
        return None

    def _outliers_do(self, start: int, cut: int, newest: int, up: bool) -> bool:
        """Whether one outlier or several among the nights cut..newest, and noise, may well look like this.

        For each number of outliers: the nights that stay must be less likely noise than so many outliers are rare.
        """
        base = np.average(self.robust[start:cut], weights=self.weight[start:cut])
        score = np.sort((self.robust[cut : newest + 1] - base) * np.sqrt(self.weight[cut : newest + 1]))
        score = (score if up else -score[::-1]) / self.sigma[cut - 1]
        for outliers in range(1, len(score) + 1):
            rare = math.comb(len(score), outliers) * self.outliers[cut - 1] ** outliers
            if rare * 0.5 <= CHANCE:
                return False
            rest = score[: len(score) - outliers]
            if rest.sum() <= math.sqrt(len(rest)) * NormalDist().inv_cdf(1 - CHANCE / rare):
                return True
        return False

    def _score(
        self, weight: np.ndarray, value: np.ndarray, start: int, cut: np.ndarray, newest: np.ndarray
    ) -> np.ndarray:
        """Standardised difference of the nights cut..newest to those of the level before; sums are from `start`."""
        low, high = cut - start, newest - start + 1
        inside, outside = weight[high] - weight[low], weight[low]
        difference = (value[high] - value[low]) / inside - value[low] / outside
        phi, sigma = self.phi[cut - 1], self.sigma[cut - 1]
        variance = inflated(phi, high - low) / inside + inflated(phi, low) / outside
        return difference / np.maximum(sigma * np.sqrt(variance), 1e-300)

    def onset(self, start: int, found: int) -> int:
        """The night on which the level that was found on night `found` most likely began."""
        x = self.robust[start : found + 1] - self.robust[start]
        weight = np.concatenate([[0.0], np.cumsum(self.weight[start : found + 1])])
        value = np.concatenate([[0.0], np.cumsum(self.weight[start : found + 1] * x)])
        cuts = np.arange(max(start + 1, found - 2 * int(WINDOWS[-1])), found)
        low, high = cuts - start, found - start + 1
        inside, outside = weight[high] - weight[low], weight[low]
        gain = inside * outside / (inside + outside) * ((value[high] - value[low]) / inside - value[low] / outside) ** 2
        return int(cuts[gain.argmax()])


def _running_median(values: np.ndarray, start: int, places: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The median of up to `width` values before each place, none before `start`; and how many there were."""
    index = places[:, None] - np.arange(1, width + 1)
    table = np.where(index >= start, values[np.maximum(index, 0)], np.inf)
    table.sort(axis=1)
    known = np.minimum(places - start, width)
    rows = np.arange(len(places))
    low, high = np.maximum((known - 1) // 2, 0), np.maximum(known // 2, 0)
    high = np.minimum(high, width - 1)
    return (table[rows, low] + table[rows, high]) / 2, known


def _running_sum(values: np.ndarray, begin: int, stop: int) -> np.ndarray:
    """The sum of up to MEMORY values up to and including each of the places begin..stop-1."""
    first = max(begin + 1 - MEMORY, 0)
    sums = np.concatenate([[0.0], np.cumsum(values[first:stop])])
    places = np.arange(begin, stop)
    return np.maximum(sums[places + 1 - first] - sums[np.maximum(places + 1 - MEMORY, 0) - first], 0)


def inflated(phi: np.ndarray | float, size: np.ndarray | int) -> np.ndarray | float:
    """How much larger the variance of the mean of `size` nights is for a lag-1 correlation of `phi`."""
    return (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**size) / (size * (1 - phi) ** 2)
