"""The verdict on one series: its level against its reference, or why there is none.

The reference is the first level since a mark. A better level becomes the reference once it has lasted, a worse one
never: a slowdown is told every morning until it is gone or a mark accepts it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podium.nightly import detect, nodes
from podium.nightly.detect import Course
from podium.nightly.index import Run
from podium.nightly.measure import Metric

OK, NOISY, NO_DATA = "ok", "noisy", "no data"
PATIENCE = 14  # nights after which a better level is what is expected
SURE = 1.96  # of 95 % intervals


@dataclass(frozen=True)
class Bars:
    """What matters, as ratios: nobody is told of less than `ignore`; `smallest` must be visible in three nights."""

    ignore: float = 0.005
    smallest: float = 0.02


USUAL = Bars()


@dataclass(frozen=True)
class Series:
    """One series up to the night that is judged: its runs, in the order of nights, and its course."""

    system: str
    benchmark: str
    config: str
    metric: Metric
    runs: tuple[Run, ...]
    night: np.ndarray  # (runs,) positions in the calendar
    value: np.ndarray  # (runs,)
    compared: nodes.Compared
    course: Course

    @property
    def name(self) -> str:
        return f"{self.system}/{self.benchmark}/{self.config}/{self.metric.name}"


@dataclass(frozen=True)
class Verdict:
    """One series' verdict. Percentages are of the reference level, with 95 % intervals; None where there is no change.

    `word` is ok, noisy, no data, or what a change of the metric is called (slower, faster, more, fewer, less); `bad`
    says that it is for the worse. `since` is the first night of it, `good` the last night before. `visible` is the
    change that would be found within three nights, nine times in ten. `drift` is in percent a week.
    """

    series: Series
    word: str
    bad: bool
    percent: float | None = None
    low: float | None = None
    high: float | None = None
    since: str | None = None
    good: str | None = None
    drift: float | None = None
    visible: float | None = None
    note: str = ""

    @property
    def text(self) -> str:
        if self.percent is None:
            return self.word + (f" ({self.note})" if self.note else "")
        drift = f", drifting {self.drift:+.2g} % a week" if self.drift else ""
        note = f" ({self.note})" if self.note else ""
        size = f"{abs(self.percent):.1f} % [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.word} by {size} since {self.since}{drift}{note}"


def judge(series: Series, calendar: Sequence[str], bars: Bars) -> Verdict:
    """The verdict on a series as of the last night of `calendar`, which has all nights in order."""
    course, last = series.course, len(calendar) - 1
    if course.night[-1] != last:
        newest = int(course.night[-1])
        note = f"no run that counts since {calendar[newest]}, {last - newest} nights ago"
        return Verdict(series, NO_DATA, False, note=note)
    levels = course.levels
    first = max(place for place, level in enumerate(levels) if level.marked)
    known = len(course.night)
    if known <= detect.LEAST:
        return Verdict(series, NO_DATA, False, note=f"{known} nights known, {detect.LEAST + 1} needed")
    ends = [level.start for level in levels[1:]] + [known]
    reference, since = first, None
    for place in range(first + 1, len(levels)):
        effect = _effect(course, levels[reference].start, ends[reference], levels[place].start, ends[place])[0]
        if effect < -bars.ignore and ends[place] - levels[place].start >= PATIENCE:
            reference, since = place, None
        elif abs(effect) < bars.ignore:
            since = None
        elif since is None or effect * since[1] < 0:
            since = (levels[place].start, effect)
    if since is None:
        return _unchanged(series, levels[-1].start, bars)
    bounds = (levels[reference].start, ends[reference], levels[-1].start, known)
    effect, error = _effect(course, *bounds)
    metric, direction = series.metric, 1 if effect > 0 else -1
    percent, *interval = (
        100 * direction * metric.sign * math.expm1(metric.sign * x)
        for x in (effect, effect - SURE * error, effect + SURE * error)
    )
    return Verdict(
        series=series,
        word=metric.worse if effect > 0 else metric.better,
        bad=effect > 0,
        percent=percent,
        low=min(interval),
        high=max(interval),
        since=calendar[course.night[since[0]]],
        good=calendar[course.night[since[0] - 1]],
        drift=_drift(course, levels[first].start, calendar, metric.sign),
        visible=_visible(course, known, levels[-1].start),
    )


def _unchanged(series: Series, start: int, bars: Bars) -> Verdict:
    """The verdict on a series at its reference: ok only where a change that matters would have been seen."""
    course = series.course
    visible = _visible(course, len(course.night), start)
    note, last = "", len(course.night) - 1
    away = course.centre[last] - course.mean(start, last)[0] if last > start else 0.0
    if abs(away) * math.sqrt(course.weight[last]) > detect.OUTLIER * _noise(course):
        note = f"last night {100 * math.expm1(series.metric.sign * away):+.1f} %: not confirmed yet"
    if visible > 100 * bars.smallest:
        words = f"a change of less than {visible:.1f} % would not be seen in three nights"
        return Verdict(series, NOISY, False, visible=visible, note="; ".join(filter(None, [words, note])))
    return Verdict(series, OK, False, visible=visible, note=note)


def _effect(course: Course, first: int, end: int, start: int, stop: int) -> tuple[float, float]:
    """The difference of two levels and its standard error, in logs; positive is worse."""
    before, one = course.mean(first, end)
    after, other = course.mean(start, stop)
    return after - before, math.hypot(one, other)


def _visible(course: Course, known: int, start: int) -> float:
    """The change in percent that the scan would find within three nights in nine of ten cases."""
    weight = float(np.median(course.weight[-10:]))
    variance = sum(detect.inflated(course.phi[-1], nights) / nights for nights in (3, known - start)) / weight
    return 100 * math.expm1((course.bar[-1] + 1.28) * _noise(course) * math.sqrt(variance))


def _noise(course: Course) -> float:
    """The noise without what the last nights added to it, which may be the beginning of a change."""
    return float(course.sigma[-5:].min())


def _drift(course: Course, start: int, calendar: Sequence[str], sign: int) -> float | None:
    """Percent a week, where the way from the reference is a ramp."""
    first = max(start, len(course.night) - detect.MEMORY)
    days = np.array([datetime.date.fromisoformat(calendar[place][:10]).toordinal() for place in course.night[first:]])
    slope = detect.ramp(course.robust[first:], course.weight[first:], days.astype(float), float(course.sigma[first]))
    return None if slope is None else 100 * math.expm1(sign * slope * 7)
