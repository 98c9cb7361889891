"""When a benchmark must be evaluated, and in which unit it counts: training rules, quality measure and epoch reporting.

The tables of the rules of 2021-05 to 2026-05 were compared: a benchmark's schedule is the same in all its rounds but
for ssd (until 1.1 another model and another schedule) and llama31_405b (5.0, then more often).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Number = int | float


@dataclass(frozen=True)
class Schedule:
    """Evaluations at `first` (from-to) and then every `every`, each within `slack`, in `unit`.

    One batch of slack where the unit is samples: an interval may be rounded to whole batches, and some count from 0,
    others from the end of the first batch.
    """

    first: tuple[Number, Number]
    every: Number
    slack: Number
    unit: str

    def __str__(self) -> str:
        low, high = self.first
        start = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"the first at {start} {self.unit}, then every {self.every:g}"


@dataclass(frozen=True)
class Miss:
    """Where an evaluation is not where it should be: the index of the evaluation, and what is wrong with it."""

    index: int
    found: str


def schedule(benchmark: str, round: str, batch: int) -> Schedule | None:
    """The schedule of a benchmark at a global batch size; None where the rules give none or we know none."""
    made = _SCHEDULES.get(benchmark)
    return made(_version(round), batch) if made else None


def miss(expected: Schedule, points: Sequence[Number]) -> Miss | None:
    """The first evaluation that is off, if any; the last one of a run or of a divided epoch may come early."""
    low, high = expected.first
    if points and not low - expected.slack <= points[0] <= high + expected.slack:
        return Miss(0, f"the first at {points[0]:g}")
    for index, (before, point) in enumerate(pairwise(points), 1):
        end = index == len(points) - 1 or (expected.every < 1 and point == round(point))
        early = end and 0 < point - before < expected.every
        if abs(point - before - expected.every) > expected.slack and not early:
            return Miss(index, f"{point:g} after {before:g}")
    return None


def misnumbered(benchmark: str, points: Sequence[Number]) -> Miss | None:
    """The first evaluation whose number cannot be right: it does not grow, or it is an epoch below 1."""
    if len(points) > 1 and len(set(points)) == 1:
        return Miss(0, f"{points[0]:g} at every evaluation")
    if benchmark in EPOCHS and points and points[0] < 1:
        return Miss(0, f"the first at epoch {points[0]:g}")
    for index, (before, point) in enumerate(pairwise(points), 1):
        if point <= before:
            return Miss(index, f"{point:g} after {before:g}")
    return None


EPOCHS = ("resnet", "rnnt", "ssd", "retinanet", "maskrcnn", "unet3d")


def _version(round: str) -> tuple[int, ...]:
    return tuple(int(part) for part in round.split("."))


def _each_epoch(_: tuple[int, ...], batch: int) -> Schedule:
    return Schedule((1, 1), 1, 0, "epochs")


def _ssd(round: tuple[int, ...], batch: int) -> Schedule | None:
    return _each_epoch(round, batch) if round >= (2,) else None


def _resnet(_: tuple[int, ...], batch: int) -> Schedule:
    return Schedule((1, 4), 4, 0, "epochs")


def _unet3d(_: tuple[int, ...], batch: int) -> Schedule:
    """In epochs: of 168 volumes, the last batch padded."""
    samples = math.ceil(168 / batch) * batch
    first = math.ceil(1000 * 168 / samples)
    return Schedule((first, first), math.ceil(20 * 168 / samples), 0, "epochs")


def _bert(_: tuple[int, ...], batch: int) -> Schedule:
    """Packed batches hold more or fewer samples than their nominal size: up to 2 % were seen, 5 % are let pass."""
    every = math.floor(0.05 * (230.23 * batch + 3_000_000) / 25_000) * 25_000
    return Schedule((every, every), every, max(2 * batch, every // 20), "samples")


def _twentieth(_: tuple[int, ...], batch: int) -> Schedule:
    """20 times an epoch, rounded down to whole iterations, or to two digits."""
    return Schedule((0.05, 0.05), 0.05, 0.0101, "epochs")


def _samples(interval: int, skipped: Callable[[int], int] = lambda batch: 0) -> Callable[..., Schedule]:
    """Every `interval` samples, rounded up to whole batches, the first `skipped(batch)` evaluations left out."""

    def make(_: tuple[int, ...], batch: int) -> Schedule:
        every = math.ceil(interval / batch) * batch
        first = (skipped(batch) + 1) * every
        return Schedule((first, first), every, batch, "samples")

    return make


def _gpt3(round: tuple[int, ...], batch: int) -> Schedule:
    """Every 24576 sequences of 2048 tokens; the unit is tokens."""
    every = math.ceil(24_576 / batch) * batch * 2048
    return Schedule((every, every), every, batch * 2048, "tokens")


def _llama31_405b(round: tuple[int, ...], batch: int) -> Schedule:
    if round < (5, 1):
        return _samples(46_080)(round, batch)
    return _samples(18_432, lambda batch: math.floor(0.0026 * batch + 12))(round, batch)


_SCHEDULES: dict[str, Callable[[tuple[int, ...], int], Schedule | None]] = {
    "resnet": _resnet,
    "rnnt": _each_epoch,
    "ssd": _ssd,
    "retinanet": _each_epoch,
    "maskrcnn": _each_epoch,
    "unet3d": _unet3d,
    "bert": _bert,
    "dlrm_dcnv2": _twentieth,
    "gnn": _twentieth,
    "rgat": _twentieth,
    "gpt3": _gpt3,
    "llama2_70b_lora": _samples(384, lambda batch: math.floor(0.125 * batch + 2)),
    "llama31_405b": _llama31_405b,
    "llama31_8b": _samples(12_288),
    "gpt_oss_20b": _samples(12_288),
    "flux1": _samples(262_144),
}
