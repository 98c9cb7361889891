"""Line plots as SVG text: no script, no network; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 44


@dataclass(frozen=True)
class Line:
    """One series; `points` are (x, y), `ended` marks a run that reached its target."""

    name: str
    points: tuple[tuple[float, float], ...]
    ended: bool


def lines(series: Sequence[Line], x_label: str, y_label: str) -> str:
    """An SVG of all series over common axes; hovering a point shows its series and values."""
    points = [point for line in series for point in line.points]
    if not points:
        return "<p>No evaluation was logged.</p>"
    x_ticks = ticks(0, max(x for x, _ in points))
    y_ticks = ticks(min(0, *(y for _, y in points)), max(y for _, y in points))
    x_scale = _scale(x_ticks[0], x_ticks[-1], LEFT, WIDTH - RIGHT)
    y_scale = _scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} over {escape(x_label)}">']
    for value in y_ticks:
        y = y_scale(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in x_ticks:
        x = x_scale(value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(12 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    for index, line in enumerate(series):
        path = " ".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in line.points)
        parts.append(f'<g class="series s{index % 8}"><polyline points="{path}"/>')
        for place, (x, y) in enumerate(line.points):
            last = place == len(line.points) - 1
            radius = 4 if last and line.ended else 2
            parts.append(
                f'<circle cx="{x_scale(x):.1f}" cy="{y_scale(y):.1f}" r="{radius}">'
                f"<title>{escape(line.name)}: {escape(y_label)} {y:.4g} at {escape(x_label)} {x:g}</title></circle>"
            )
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values that cover low to high: multiples of 1, 2 or 5 times a power of ten."""
    span = (high - low) or abs(high) or 1.0
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, max(last, first + 1) + 1)]


def _scale(low: float, high: float, start: float, end: float):
    return lambda value: start + (value - low) / (high - low) * (end - start)
