"""The verdict on a night: every series against its reference, which nodes are slow, and where a change comes from."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podium.nightly import detect, history, nodes
from podium.nightly.detect import Course
from podium.nightly.history import Mark
from podium.nightly.index import Index, Run
from podium.nightly.measure import METRICS, Metric

OK, NOISY, NO_DATA = "ok", "noisy", "no data"
PATIENCE = 14  # nights after which a better level is what is expected
SURE = 1.96  # of 95 % intervals
TOGETHER = 2  # nights that two onsets may lie apart and be one change


@dataclass(frozen=True)
class Bars:
    """What matters, as ratios: nobody is told of less than `ignore`; `smallest` must be visible in three nights."""

    ignore: float = 0.005
    smallest: float = 0.02


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


@dataclass(frozen=True)
class SlowNode:
    """A node that is slower than the others of its system, in percent with a 95 % interval, and since when."""

    system: str
    node: str
    percent: float
    low: float
    high: float
    since: str
    runs: int


@dataclass(frozen=True)
class Cause:
    """Changes for the worse that began together, and what they have in common: `system`, `software`, `unknown`."""

    kind: str
    text: str
    since: str
    good: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Judgement:
    """All that is known the morning after `night`."""

    night: str
    nights: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    slow: tuple[SlowNode, ...]
    causes: tuple[Cause, ...]
    marks: tuple[Mark, ...]
    problems: tuple[str, ...]

    @property
    def worse(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.bad)


def judge(index: Index, marks: Sequence[Mark], night: str | None = None, bars: Bars = Bars()) -> Judgement:
    """Judge every series of the history as of `night` (the last one where none is given)."""
    calendar = [known for known in index.nights() if night is None or history.order(known) <= history.order(night)]
    if night and night not in calendar:
        calendar.append(night)
    series = _series(index, marks, calendar)
    verdicts = tuple(_verdict(one, calendar, bars) for one in series)
    return Judgement(
        night=calendar[-1] if calendar else night or "",
        nights=tuple(calendar),
        verdicts=verdicts,
        slow=tuple(_slow(series, calendar, bars)),
        causes=tuple(_causes(verdicts, calendar)),
        marks=tuple(marks),
        problems=index.problems,
    )


def _series(index: Index, marks: Sequence[Mark], calendar: Sequence[str]) -> list[Series]:
    """The runs of each series, without those of nights that are void, and its course."""
    place = {night: position for position, night in enumerate(calendar)}
    names = [_current(run, marks) for run in index.runs]
    void = [mark for mark in marks if mark.kind == history.VOID]
    groups: dict[tuple[str, str, str, str], list[tuple[int, float]]] = {}
    for position, metric, value in index.measures:
        run = index.runs[position]
        if run.night not in place or metric not in METRICS or run.outcome == "failed" or not value > 0:
            continue
        if any(mark.night == run.night and mark.covers(names[position], run.benchmark) for mark in void):
            continue
        groups.setdefault((names[position], run.benchmark, run.config, metric), []).append((position, value))
    numbers = {name: number for number, name in enumerate(sorted({run.node for run in index.runs if run.node}))}
    found = []
    for (system, benchmark, config, metric), items in sorted(groups.items()):
        items.sort()
        runs = tuple(index.runs[position] for position, _ in items)
        night = np.array([place[run.night] for run in runs])
        node = np.array([numbers.get(run.node, -1) for run in runs])
        value = np.array([value for _, value in items])
        log = METRICS[metric].sign * np.log(value)
        compared = nodes.compare(night, node, log)
        begins = _begins(marks, calendar, system, benchmark)
        course = detect.follow(night, log - nodes.effects(compared), begins, len(groups))
        found.append(Series(system, benchmark, config, METRICS[metric], runs, night, value, compared, course))
    return found


def _current(run: Run, marks: Sequence[Mark]) -> str:
    """What the run's system is called today."""
    name = run.system
    for mark in marks:
        if mark.kind == history.RENAMED and mark.was == name and history.order(run.night) < history.order(mark.night):
            name = mark.system
    return name


def _begins(marks: Sequence[Mark], calendar: Sequence[str], system: str, benchmark: str) -> list[int]:
    keys = [history.order(night) for night in calendar]
    return [
        sum(key < history.order(mark.night) for key in keys)
        for mark in marks
        if mark.kind == history.LEVEL and mark.covers(system, benchmark)
    ]


def _verdict(series: Series, calendar: Sequence[str], bars: Bars) -> Verdict:
    course, last = series.course, len(calendar) - 1
    if course.night[-1] != last:
        ago = last - int(course.night[-1])
        return Verdict(
            series, NO_DATA, False, note=f"no run that counts since {calendar[course.night[-1]]}, {ago} nights ago"
        )
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
    note = ""
    robust = series.course.robust
    middle = course.mean(start, len(robust) - 1)[0] if len(robust) - 1 > start else robust[-1]
    away = (course.centre[-1] - middle) * math.sqrt(course.weight[-1]) / _noise(course)
    if abs(away) > detect.OUTLIER:
        change = 100 * math.expm1(series.metric.sign * (course.centre[-1] - middle))
        note = f"last night {change:+.1f} %: not confirmed yet"
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
    inflation = detect.inflated(course.phi[-1], 3) / 3 + detect.inflated(course.phi[-1], known - start) / (
        known - start
    )
    return 100 * math.expm1((course.bar[-1] + 1.28) * _noise(course) * math.sqrt(inflation / weight))


def _noise(course: Course) -> float:
    """The noise without what the last nights added to it, which may be the beginning of a change."""
    return float(course.sigma[-5:].min())


def _drift(course: Course, start: int, calendar: Sequence[str], sign: int) -> float | None:
    """Percent a week, where the way from the reference is a ramp."""
    first = max(start, len(course.night) - detect.MEMORY)
    days = np.array([datetime.date.fromisoformat(calendar[place][:10]).toordinal() for place in course.night[first:]])
    slope = detect.ramp(course.robust[first:], course.weight[first:], days.astype(float), float(course.sigma[first]))
    return None if slope is None else 100 * math.expm1(sign * slope * 7)


def _slow(series: Sequence[Series], calendar: Sequence[str], bars: Bars) -> list[SlowNode]:
    """Slow nodes of each system, by the steps of all its benchmarks; half of what matters is usual between nodes."""
    found = []
    for system in sorted({one.system for one in series}):
        mine = [one for one in series if one.system == system and one.metric.name == "step"]
        names = {
            run.node: node for one in mine for run, node in zip(one.runs, one.compared.node, strict=True) if run.node
        }
        back = {number: name for name, number in names.items()}
        for item in nodes.slow([one.compared for one in mine], len(back), math.log1p(bars.smallest / 2)):
            percents = [100 * math.expm1(value) for value in (item.effect, item.low, item.high)]
            found.append(SlowNode(system, back[item.node], *percents, calendar[item.since], item.runs))
    return found


def _causes(verdicts: Sequence[Verdict], calendar: Sequence[str]) -> list[Cause]:
    """Changes for the worse that began together, and whether they follow the system or the software."""
    place = {night: position for position, night in enumerate(calendar)}
    left = sorted((verdict for verdict in verdicts if verdict.bad), key=lambda verdict: place[verdict.since])
    found = []
    while left:
        first = place[left[0].since]
        group = [verdict for verdict in left if place[verdict.since] - first <= TOGETHER]
        left = left[len(group) :]
        kind, text = _common(group, verdicts)
        main = min(group, key=lambda verdict: (list(METRICS).index(verdict.series.metric.name), place[verdict.since]))
        found.append(Cause(kind, text, main.since, main.good, tuple(group)))
    return found


def _common(group: Sequence[Verdict], verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """What the worse ones of a group have in common, that the others have not."""
    every = {(verdict.series.system, verdict.series.benchmark) for verdict in verdicts if verdict.word != NO_DATA}
    worse = {(verdict.series.system, verdict.series.benchmark) for verdict in group}
    systems, benchmarks = {system for system, _ in worse}, {benchmark for _, benchmark in worse}
    whole_systems = {pair for pair in every if pair[0] in systems}
    whole_benchmarks = {pair for pair in every if pair[1] in benchmarks}
    if worse == whole_systems and len(worse) > len(systems):
        others = len({system for system, _ in every}) - len(systems)
        which = ", ".join(sorted(systems))
        rest = "" if others else "; there is no other system to compare with"
        return "system", f"all benchmarks of {which}: the system (driver, firmware, settings, storage){rest}"
    if worse == whole_benchmarks and len(worse) > len(benchmarks):
        return "software", f"{', '.join(sorted(benchmarks))} on all systems: its image or its data"
    shown = ", ".join(sorted(f"{system}/{benchmark}" for system, benchmark in worse))
    if len(whole_systems) > len(worse) and len(systems) == 1:
        return (
            "software",
            f"{shown} and not the other benchmarks of the system: its image, its data, or what it alone uses",
        )
    return "unknown", f"{shown}: with no other benchmark or system to compare, it may be the system or the software"


def by_series(judgement: Judgement) -> Mapping[str, Verdict]:
    return {verdict.series.name: verdict for verdict in judgement.verdicts}
