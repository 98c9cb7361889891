"""The history on a terminal: a line a series, with its course as a sparkline."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from podium.nightly.judge import Judgement
from podium.nightly.verdict import Verdict

BLOCKS = "▁▂▃▄▅▆▇█"
NIGHTS = 40


def lines(judgement: Judgement, nights: int = NIGHTS) -> list[str]:
    """A line for each series: name, the last value, the last nights, the verdict."""
    if not judgement.verdicts:
        return ["no run is known: podium nightly runs one, podium nightly import reads logs"]
    width = max(len(verdict.series.name) for verdict in judgement.verdicts)
    return [_line(verdict, width, len(judgement.nights), nights) for verdict in judgement.verdicts]


def _line(verdict: Verdict, width: int, size: int, nights: int) -> str:
    series = verdict.series
    values: list[float | None] = [None] * size
    for place, centre in zip(series.course.night, series.course.centre, strict=True):
        values[place] = math.exp(series.metric.sign * centre)
    last = next(value for value in reversed(values) if value is not None)
    mark = "!" if verdict.bad else " "
    number = f"{last:.4g} {series.metric.unit}"
    return f"{mark} {series.name:{width}}  {sparkline(values[-nights:]):{nights}}  {number:>18}  {verdict.text}"


def sparkline(values: Sequence[float | None]) -> str:
    """One character a value, from the lowest to the highest of them; a gap for None."""
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return " " * len(values)
    low, span = known.min(), known.max() - known.min()
    step = (len(BLOCKS) - 1) / span if span > 0 else 0.0
    return "".join(" " if value is None else BLOCKS[round((value - low) * step)] for value in values)
