"""Are two samples of positive values the same within a margin? All in relative terms: logarithms are compared.

Equivalence by two one-sided tests (TOST; Schuirmann 1987): the same where the interval of the ratio that holds it with
confidence 1 - 2 alpha lies inside the margin. Means differ by Welch's t; one value alone takes the other's spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 4000  # of a bootstrap
MOST = 200  # runs that are worth asking for
SAME, MORE, LESS, OPEN = "same", "more", "less", "open"


@dataclass(frozen=True)
class Ratio:
    """Mine over theirs (of geometric means) with its interval; 1.0 is equal.

    `answer`: same (the interval lies within the margin), more or less (beyond 1.0), open (it holds both). `p` is that
    of the TOST: below alpha they are the same. `needed` is about how many runs of mine would close an open answer.
    """

    value: float
    low: float
    high: float
    p: float
    answer: str
    theirs: int
    mine: int
    needed: int | None = None

    @property
    def percent(self) -> float:
        """How much more mine is, in per cent."""
        return 100 * (self.value - 1)


def ratio(
    theirs: Sequence[float], mine: Sequence[float], margin: float, confidence: float, alike: bool = False
) -> Ratio | None:
    """Compare two samples of positive values; None where there are too few (one of mine, two of theirs).

    `margin` is relative (0.05: five per cent either way), `confidence` that of each one-sided test. `alike`: both are
    as spread as all together, which few equal values of one do not show (Student's t instead of Welch's).
    """
    if len(theirs) < 2 or not len(mine) or min(*theirs, *mine) <= 0:
        return None
    difference, error, freedom = (_student if alike else _welch)(np.log(theirs), np.log(mine))
    limit = math.log1p(margin)
    half = _quantile(confidence, freedom) * error
    low, high = difference - half, difference + half
    p = (
        max(_tail((difference + limit) / error, freedom), _tail((limit - difference) / error, freedom))
        if error
        else 0.0
    )
    if not error:
        p = float(abs(difference) >= limit)
    answer = SAME if -limit < low and high < limit else MORE if low > 0 else LESS if high < 0 else OPEN
    needed = _needed(theirs, mine, difference, limit, confidence) if answer == OPEN else None
    return Ratio(math.exp(difference), math.exp(low), math.exp(high), p, answer, len(theirs), len(mine), needed)


def score_interval(
    times: Sequence[float], runs: int, olympic: Callable[[Sequence[float]], float | None], confidence: float
) -> tuple[float, float] | None:
    """Where the olympic mean of `runs` runs drawn from `times` lies with that confidence (percentile bootstrap).

    The draws are the same every time. None where `times` are fewer than two or the mean does not exist.
    """
    if len(times) < 2:
        return None
    draw = np.random.default_rng(0)
    samples = draw.choice(np.asarray(times, float), (DRAWS, runs))
    means = [mean for row in samples if (mean := olympic(list(row))) is not None]
    if not means:
        return None
    edge = (1 - confidence) / 2
    low, high = np.quantile(means, [edge, 1 - edge])
    return float(low), float(high)


def _welch(theirs: np.ndarray, mine: np.ndarray) -> tuple[float, float, float]:
    """Difference of means, its standard error, degrees of freedom."""
    one = theirs.var(ddof=1) / len(theirs)
    if len(mine) == 1:  # no spread of its own: as spread as theirs
        variance = theirs.var(ddof=1) * (1 / len(theirs) + 1)
        return float(mine[0] - theirs.mean()), math.sqrt(variance), len(theirs) - 1
    other = mine.var(ddof=1) / len(mine)
    error = math.sqrt(one + other)
    if not error:
        return float(mine.mean() - theirs.mean()), 0.0, 1.0
    freedom = (one + other) ** 2 / (one**2 / (len(theirs) - 1) + other**2 / (len(mine) - 1))
    return float(mine.mean() - theirs.mean()), error, freedom


def _student(theirs: np.ndarray, mine: np.ndarray) -> tuple[float, float, float]:
    """The same with one spread for both."""
    freedom = len(theirs) + len(mine) - 2
    squares = ((theirs - theirs.mean()) ** 2).sum() + ((mine - mine.mean()) ** 2).sum()
    error = math.sqrt(squares / freedom * (1 / len(theirs) + 1 / len(mine)))
    return float(mine.mean() - theirs.mean()), error, freedom


def _needed(
    theirs: Sequence[float], mine: Sequence[float], difference: float, limit: float, confidence: float
) -> int | None:
    """The fewest runs of mine whose interval, the spread staying, would be on one side; None for more than MOST."""
    spread = float(np.log(theirs).var(ddof=1))
    own = float(np.log(mine).var(ddof=1)) if len(mine) > 1 else spread
    for runs in range(len(mine) + 1, MOST + 1):
        half = _quantile(confidence, len(theirs) + runs - 2) * math.sqrt(spread / len(theirs) + own / runs)
        if abs(difference) + half < limit or abs(difference) > half:
            return runs
    return None


def _quantile(confidence: float, freedom: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(confidence, freedom))


def _tail(value: float, freedom: float) -> float:
    from scipy import stats

    return float(stats.t.sf(value, freedom))
