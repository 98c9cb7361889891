"""The verdict on a night: every series against its reference, which nodes are slow, and where a change comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podium.nightly import detect, history, nodes, verdict
from podium.nightly.causes import Cause, causes
from podium.nightly.history import Mark
from podium.nightly.index import Index, Run
from podium.nightly.measure import METRICS
from podium.nightly.verdict import USUAL, Bars, Series, Verdict


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
        return tuple(item for item in self.verdicts if item.bad)


def judge(index: Index, marks: Sequence[Mark], night: str | None = None, bars: Bars = USUAL) -> Judgement:
    """Judge every series of the history as of `night` (the last one where none is given)."""
    calendar = [known for known in index.nights() if night is None or history.order(known) <= history.order(night)]
    if night and night not in calendar:
        calendar.append(night)
    series = _series(index, marks, calendar)
    verdicts = tuple(verdict.judge(one, calendar, bars) for one in series)
    return Judgement(
        night=calendar[-1] if calendar else night or "",
        nights=tuple(calendar),
        verdicts=verdicts,
        slow=tuple(_slow(series, calendar, bars)),
        causes=tuple(causes(verdicts, calendar)),
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
