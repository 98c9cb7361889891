"""Plots as SVG text: colours come from the page's style sheet, values are shown by its script where a mark is touched.

A mark that tells something is of class `hit` and carries its words in `data-tip`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 280  # a phone shows it nearly unscaled, a desk two side by side
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 44


@dataclass(frozen=True)
class Line:
    """One run: its name, points (x, y), whether it reached its target, and the class that colours it."""

    name: str
    points: tuple[tuple[float, float], ...]
    ended: bool
    kind: str = "counted"


@dataclass(frozen=True)
class Band:
    """A range on the x axis with its words: from the fastest mean that is accepted to the reference's mean."""

    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Column:
    """One column of parts (name, seconds), its label below and the class that marks it."""

    name: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Span:
    """One bar of a timeline: its row, start and stop in seconds, class and words."""

    row: str
    start: float
    stop: float
    kind: str
    words: str


def lines(
    series: Sequence[Line], x_label: str, y_label: str, target: float | None = None, band: Band | None = None
) -> str:
    """All runs over common axes; a band that lies far beyond the runs is left to the words below the plot.

    A few values far above all others are drawn at the upper edge, so that the others can be told apart.
    """
    points = [point for line in series for point in line.points]
    if not points:
        return '<p class="none">No evaluation was logged.</p>'
    furthest = max(x for x, _ in points)
    band = band if near(band, series) else None
    heights = sorted(y for _, y in points)
    most = 3 * heights[int(0.9 * (len(heights) - 1))]
    highest = most if 0 < most < heights[-1] else heights[-1]
    values = [min(y, highest) for y in heights] + ([target] if target is not None else [])
    x_ticks = ticks(0, max(furthest, band.high if band else 0))
    y_ticks = ticks(min(0, *values), max(values)) if max(values) > 2 * min(values) else ticks(min(values), max(values))
    x, y = _scales(x_ticks, y_ticks)
    series = sorted(series, key=lambda line: line.kind == "counted")  # what counts lies on top
    parts = [_open(f"{y_label} over {x_label}"), _frame(x_ticks, y_ticks, x, y, x_label, y_label)]
    if band:
        width, height = max(2.0, x(band.high) - x(band.low)), HEIGHT - BOTTOM - TOP
        place = f'x="{x(band.low):.1f}" y="{TOP}" width="{width:.1f}" height="{height}"'
        parts.append(f'<rect class="band hit" {place}{_tip(band.words)}/>')
    if target is not None:
        tip, up = _tip(f"target: {y_label} {target:g}"), f"{y(target):.1f}"
        parts.append(f'<line class="target hit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up}" y2="{up}"{tip}/>')
    for line in series:
        path = " ".join(f"{x(across):.1f},{y(min(up, highest)):.1f}" for across, up in line.points)
        parts.append(f'<g class="run {line.kind}"><polyline points="{path}"/>')
        for place, (across, up) in enumerate(line.points):
            last = place == len(line.points) - 1
            radius = 3.5 if last and line.ended else 2
            tip = _tip(f"{line.name}: {y_label} {up:.4g} at {across:g} {x_label}")
            where = f'cx="{x(across):.1f}" cy="{y(min(up, highest)):.1f}" r="{radius}"'
            parts.append(f'<circle class="hit" {where}{tip}/>')
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def near(band: Band | None, series: Sequence[Line]) -> bool:
    """Whether a band is so near to the runs that one plot can show both."""
    furthest = max((x for line in series for x, _ in line.points), default=0)
    return band is not None and 0 <= band.low <= band.high <= 3 * furthest


def stacked(columns: Sequence[Column], names: Sequence[str], x_label: str) -> str:
    """Columns of stacked parts in seconds, or minutes where they are long; parts are coloured by their place."""
    longest = max((sum(seconds for _, seconds in column.parts) for column in columns), default=0)
    if longest <= 0:
        return '<p class="none">No run has ended.</p>'
    unit, factor = ("minutes", 60.0) if longest > 600 else ("seconds", 1.0)
    y_ticks = ticks(0, longest / factor)
    _, y = _scales([0, 1], y_ticks)
    step = (WIDTH - LEFT - RIGHT) / len(columns)
    width = max(2.0, min(36.0, step * 0.72))
    every = max(1, math.ceil(len(columns) / 10))
    parts = [_open(f"{unit} by {x_label}"), _frame([], y_ticks, float, y, x_label, unit)]
    for index, column in enumerate(columns):
        middle = LEFT + step * (index + 0.5)
        total = sum(seconds for _, seconds in column.parts)
        told = ", ".join(f"{name} {seconds / factor:.3g}" for name, seconds in column.parts)
        bottom = 0.0
        parts.append(f'<g class="hit"{_tip(f"{x_label} {column.name}: {told}; {total / factor:.4g} {unit} in all")}>')
        for name, seconds in column.parts:
            top = bottom + seconds / factor
            parts.append(
                f'<rect class="part p{names.index(name)}" x="{middle - width / 2:.1f}" y="{y(top):.1f}" '
                f'width="{width:.1f}" height="{max(0.0, y(bottom) - y(top) - 0.8):.1f}"/>'
            )
            bottom = top
        parts.append("</g>")
        if index % every == 0:
            parts.append(
                f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{escape(column.name)}</text>'
            )
    return "".join([*parts, "</svg>"])


def timeline(spans: Sequence[Span], begin: str) -> str:
    """A row for each result, a bar for each attempt, over the hours or minutes since `begin`."""
    if not spans:
        return '<p class="none">No attempt has been launched.</p>'
    rows = list(dict.fromkeys(span.row for span in spans))
    first = min(span.start for span in spans)
    length = max(1.0, max(span.stop for span in spans) - first)
    unit, factor = (
        ("days", 86400.0) if length > 4 * 86400 else ("hours", 3600.0) if length > 7200 else ("minutes", 60.0)
    )
    # Attempts of a result that go on side by side get lanes of their own.
    lanes = {row: _lanes([span for span in spans if span.row == row]) for row in rows}
    left, width, lane = 150, 920, 14
    heights = [max(26, lane * (1 + max(lanes[row].values())) + 12) for row in rows]
    height = sum(heights) + BOTTOM
    x_ticks = ticks(0, length / factor, 8)
    scale = _scale(0, x_ticks[-1], left, width - RIGHT)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="attempts over {unit}" class="long">']
    for tick in x_ticks:
        across = scale(tick)
        parts.append(f'<line class="grid" x1="{across:.1f}" x2="{across:.1f}" y1="0" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{across:.1f}" y="{height - BOTTOM + 17}" text-anchor="middle">{tick:g}</text>')
    parts.append(
        f'<text x="{(left + width) / 2}" y="{height - 6}" text-anchor="middle">{unit} since {escape(begin)}</text>'
    )
    top = 0
    for row, tall in zip(rows, heights, strict=True):
        parts.append(f'<line class="grid" x1="0" x2="{width}" y1="{top}" y2="{top}"/>')
        parts.append(f'<text x="4" y="{top + tall / 2 + 4:.0f}" class="name">{escape(row)}</text>')
        for span, place in lanes[row].items():
            start, stop = scale((span.start - first) / factor), scale((span.stop - first) / factor)
            parts.append(
                f'<rect class="span {span.kind} hit" x="{start:.1f}" y="{top + 6 + lane * place}" rx="2" '
                f'width="{max(2.0, stop - start - 0.8):.1f}" height="{lane - 3}"{_tip(span.words)}/>'
            )
        top += tall
    return "".join([*parts, "</svg>"])


def _lanes(spans: Sequence[Span]) -> dict[Span, int]:
    """The lowest lane that is free when each span begins."""
    ends: list[float] = []
    places = {}
    for span in sorted(spans, key=lambda span: span.start):
        place = next((index for index, end in enumerate(ends) if end <= span.start), len(ends))
        ends[place : place + 1] = [span.stop]
        places[span] = place
    return places


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values that cover low to high: multiples of 1, 2 or 5 times a power of ten."""
    size = max(abs(low), abs(high))
    span = high - low if high - low > 1e-9 * max(size, 1e-3) else size if size > 1e-12 else 1.0
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, max(last, first + 1) + 1)]


def _open(label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'


def _frame(
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x: Callable[[float], float],
    y: Callable[[float], float],
    x_label: str,
    y_label: str,
) -> str:
    parts = []
    for value in y_ticks:
        up = y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up:.1f}" y2="{up:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{up + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    for value in x_ticks:
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{_short(value)}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 7}" text-anchor="middle">{escape(x_label)}</text>'
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    return "".join(parts)


def _short(value: float) -> str:
    """12,000 as 12k: an axis has little room."""
    for limit, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e6 if letter == 'M' else 1e3):g}{letter}"
    return f"{value:g}"


def _tip(words: str) -> str:
    return f' tabindex="-1" data-tip="{escape(words)}"'


def _scales(
    x_ticks: Sequence[float], y_ticks: Sequence[float]
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    across = _scale(x_ticks[0], x_ticks[-1], LEFT, WIDTH - RIGHT)
    return across, _scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (end - start)
