"""What a published result's logs say of time: minutes of each run, initialisation before it, throughput in it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.verdict.reading import logs

UNTIL = 500  # values of throughput that are enough for a median


@dataclass(frozen=True)
class Expected:
    """Time and cost of a run like theirs. `minutes` is the mean time to train; `initial` the minutes before it.

    `hours` is the time of all wanted runs, one after another; `accelerator_hours` that times accelerators (nodes where
    there are none); `cost` by the config's price, None without one. None where no log tells.
    """

    minutes: float | None
    longest: float | None
    initial: float | None
    hours: float | None
    accelerator_hours: float | None
    cost: float | None


def expected(
    times: Iterable[float | None], first: Path | None, runs: int, devices: int, price: float | None
) -> Expected:
    """From the minutes of their runs; `first` is one log, which is read for its initialisation."""
    known = [time for time in times if time is not None and math.isfinite(time)]
    if not known:
        return Expected(None, None, None, None, None, None)
    run = logs.read(first) if first else None
    initial = None
    if run and run.started is not None and run.init_started is not None:
        initial = max(0.0, run.started - run.init_started) / 60_000
    mean = statistics.fmean(known)
    hours = runs * (mean + (initial or 0.0)) / 60
    device_hours = hours * max(1, devices)
    cost = None if price is None else device_hours * price
    return Expected(mean, max(known), initial, hours, device_hours, cost)


def throughput(path: Path) -> float | None:
    """The median of the samples a second that a log gives: tracked_stats or throughput, else samples of its blocks.

    Source: mllog's keys tracked_stats (value.throughput) and throughput; block_start and block_stop with epoch_count
    and train_samples, where epochs are passes over the data.
    """
    rates: list[float] = []
    blocks: list[float] = []
    samples: float | None = None
    begun: tuple[float, float] | None = None
    for item in logs.records(path):
        if isinstance(item, logs.Broken):
            continue
        value = item.value["value"]
        if item.key in ("tracked_stats", "throughput"):
            rate = value.get("throughput") if isinstance(value, dict) else value
            if _positive(rate):
                rates.append(float(rate))
        elif item.key == "train_samples" and _positive(value):
            samples = float(value)
        elif item.key == "block_start":
            count = logs.metadata(item).get("epoch_count")
            begun = (item.timestamp, float(count)) if _positive(count) else None
        elif item.key in ("block_stop", "eval_start") and begun and samples and item.timestamp > begun[0]:
            blocks.append(begun[1] * samples / ((item.timestamp - begun[0]) / 1000))
            begun = None
        if len(rates) >= UNTIL:
            break
    return statistics.median(rates or blocks) if rates or blocks else None


def of(values: Iterable[float | None]) -> list[float]:
    """Those that are known."""
    return [value for value in values if value is not None]


def as_json(value: Expected) -> Mapping[str, Any]:
    return {name: None if item is None else round(item, 6) for name, item in vars(value).items()}


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15
