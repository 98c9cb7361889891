"""A series' course as SVG: every run, each night's centre, the levels, and the marks; no script, no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from podium.nightly import history
from podium.nightly.history import Mark
from podium.nightly.verdict import Verdict
from podium.report.plot import ticks

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 14, 22
NIGHTS = 180  # that are drawn
RUNS = 400  # single runs that are drawn, the newest ones


def svg(verdict: Verdict, calendar: Sequence[str], marks: Sequence[Mark]) -> str:
    """The plot of one series' last nights; hovering a night tells its date and value."""
    series, course = verdict.series, verdict.series.course
    first = max(len(calendar) - NIGHTS, 0)
    value = np.exp(series.metric.sign * course.centre)
    shown = course.night >= first
    drawn = np.flatnonzero(series.night >= first)[-RUNS:]
    # One wild run must not squeeze all others into a line: they are drawn at the edge.
    low, high = _range(value[shown] if shown.any() else value[-1:], series.value[drawn])
    marks_of_y = ticks(low, high, 3)
    low, high = min(low, marks_of_y[0]), max(high, marks_of_y[-1])
    x = _scale(first - 0.5, len(calendar) - 0.5, LEFT, WIDTH - RIGHT)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(series.name)}">']
    for tick in marks_of_y:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for place in sorted({first, (first + len(calendar) - 1) // 2, len(calendar) - 1}):
        anchor = "start" if place == first else "end" if place == len(calendar) - 1 else "middle"
        parts.append(
            f'<text x="{x(place):.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{escape(calendar[place])}</text>'
        )
    parts += _marks(verdict, calendar, marks, first, x)
    dots = "".join(f"M{x(series.night[run]):.1f} {y(min(max(series.value[run], low), high)):.1f}h0" for run in drawn)
    parts.append(f'<path class="runs" d="{dots}"/>')
    line = " ".join(f"{x(night):.1f},{y(v):.1f}" for night, v in zip(course.night[shown], value[shown], strict=True))
    parts.append(f'<polyline class="centre" points="{line}"/>')
    parts += _levels(verdict, first, x, y)
    parts += [
        f'<circle cx="{x(night):.1f}" cy="{y(v):.1f}" r="5"><title>{escape(calendar[night])}: {v:.5g}</title></circle>'
        for night, v in zip(course.night[shown], value[shown], strict=True)
    ]
    return "".join([*parts, "</svg>"])


def _levels(verdict: Verdict, first: int, x, y) -> list[str]:
    course, levels = verdict.series.course, verdict.series.course.levels
    ends = [level.start for level in levels[1:]] + [len(course.night)]
    parts = []
    for level, end in zip(levels, ends, strict=True):
        if end <= level.start or course.night[end - 1] < first:
            continue
        mean, _ = course.mean(level.start, end)
        height = y(math.exp(verdict.series.metric.sign * mean))
        start, stop = x(max(course.night[level.start], first) - 0.4), x(course.night[end - 1] + 0.4)
        parts.append(f'<line class="level" x1="{start:.1f}" x2="{stop:.1f}" y1="{height:.1f}" y2="{height:.1f}"/>')
    return parts


def _marks(verdict: Verdict, calendar: Sequence[str], marks: Sequence[Mark], first: int, x) -> list[str]:
    """Vertical lines: known marks, and the night on which the change began that the verdict tells of."""
    parts = []
    for mark in marks:
        place = sum(history.order(night) < history.order(mark.night) for night in calendar)
        if mark.covers(verdict.series.system, verdict.series.benchmark) and first <= place < len(calendar):
            words = escape(f"{mark.night} {mark.kind}: {mark.text}")
            parts.append(_upright("mark", x(place - 0.5), words))
    if verdict.since in calendar and calendar.index(verdict.since) >= first:
        kind = "since bad" if verdict.bad else "since"
        parts.append(_upright(kind, x(calendar.index(verdict.since) - 0.5), escape(verdict.text)))
    return parts


def _upright(kind: str, at: float, words: str) -> str:
    place = f'x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
    return f'<line class="{kind}" {place}><title>{words}</title></line>'


def _range(centres: np.ndarray, runs: np.ndarray) -> tuple[float, float]:
    """The lowest and the highest value drawn: all centres, and the runs but for the wildest."""
    ends = np.quantile(runs, [0.02, 0.98]) if len(runs) else centres
    low, high = min(centres.min(), ends.min()), max(centres.max(), ends.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return float(low - margin), float(high + margin)


def _scale(low: float, high: float, start: float, end: float):
    return lambda value: start + (value - low) / (high - low) * (end - start)
