"""The olympic score of runs. Source: training rules, scoring; mlperf_logging result_summarizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """A result's time to train in minutes, None when it has none; `dropped` are indices of the given runs."""

    minutes: float | None
    dropped: tuple[int, ...]
    why: str


def dropped_each_side(benchmark: str) -> int:
    """How many runs the olympic mean drops at either end."""
    return 4 if benchmark == "unet3d" else 1


def olympic(times: Sequence[float | None], benchmark: str) -> Score:
    """The olympic mean of run times in minutes; a run that did not converge is None and counts as slowest.

    More of those than are dropped at the slow end make the result invalid.
    """
    drop = dropped_each_side(benchmark)
    failed = [index for index, time in enumerate(times) if time is None]
    if len(failed) > drop:
        return Score(None, tuple(failed), f"{len(failed)} runs did not converge, {drop} may")
    if len(times) <= 2 * drop:
        return Score(None, (), f"{len(times)} runs are too few to drop {drop} at either end")
    order = sorted((index for index in range(len(times)) if times[index] is not None), key=lambda index: times[index])
    order += failed
    kept = order[drop : len(order) - drop]
    minutes = sum(times[index] for index in kept) / len(kept)
    return Score(minutes, tuple(order[:drop] + order[len(order) - drop :]), f"mean of {len(kept)} of {len(times)} runs")
