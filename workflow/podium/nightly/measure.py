"""What one run was like, in numbers: step times, throughput, time and samples to the target, start, memory, power.

Read from the run's MLLOG file and, where the implementation writes it, from `steps.txt` (containers/common/steps.py).
Step times come from the best source there is, which is noted, since numbers of two sources do not compare:
`steps` (each step, by its own clock), `tracked_stats` (the throughput that a log tells from time to time), `blocks`
(the time between the ends of blocks, without evaluations).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium.verdict.reading import logs
from podium.verdict.reading.logs import LogLine

STEPS = "steps.txt"  # containers/common/steps.py
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
WARM_UP = 0.1  # of the steps at the beginning, which load, compile and fill caches, are not counted
POINTS = 32  # of a loss curve
LEAST, MOST = 1e-12, 1e18  # of any measure: what is outside is nonsense


@dataclass(frozen=True)
class Metric:
    """A measure that is judged. `sign` is 1 where more is worse; `worse` and `better` are what a change is called."""

    name: str
    unit: str
    sign: int
    worse: str
    better: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("step", "s", 1, "slower", "faster"),
        Metric("step_p99", "s", 1, "slower", "faster"),
        Metric("throughput", "samples/s", -1, "slower", "faster"),
        Metric("minutes", "min", 1, "slower", "faster"),
        Metric("to_target", "epochs or samples", 1, "more", "fewer"),
        Metric("init", "s", 1, "slower", "faster"),
        Metric("memory", "GB", 1, "more", "less"),
        Metric("power", "W", 1, "more", "less"),
    )
}


@dataclass(frozen=True)
class Measured:
    """The measures of one run, the distribution of its steps, its curve, how its cache was cleared, what is missing."""

    values: dict[str, float]
    steps: dict[str, Any]
    curve: tuple[tuple[float, float], ...]
    cache: str
    missing: tuple[str, ...]


def measure(log: Path, steps: Path | None = None, power: Path | None = None) -> Measured:
    """Measure a run from its log and, where they are there, its file of steps and its folder of power logs.

    Never raises for what they hold.
    """
    try:
        records = [item for item in logs.records(log) if isinstance(item, LogLine) and isinstance(item.key, str)]
    except OSError:
        records = []
    run = logs.summarise(records)
    values: dict[str, float] = {}
    missing: list[str] = [] if records else ["everything: the run left no MLLOG line"]
    source, seconds, samples, memory = _steps(records, steps)
    if len(seconds):
        values |= _of_steps(seconds, samples)
    elif records:
        missing.append("step: no steps.txt, no tracked_stats with a throughput, no block that ended")
    _keep(values, "memory", memory / 1e9 or _tracked(records, ("max_memory_usage", "max_memory", "memory")))
    _keep(values, "power", _power(power) if power else _tracked(records, ("power", "power_watts")))
    if run.converged:
        _keep(values, "minutes", run.minutes)
        _keep(values, "to_target", _to_target(records))
    if run.started is not None and run.init_started is not None:
        _keep(values, "init", (run.started - run.init_started) / 1000)
    if run.minutes is not None and run.minutes <= 0:
        missing.append(f"minutes: run_stop is {-run.minutes * 60:.1f} s before run_start, the clock was set back")
    points = [(item.epoch, item.value) for item in run.evaluations]
    curve = (
        points
        if len(points) <= POINTS
        else [points[round(i * (len(points) - 1) / (POINTS - 1))] for i in range(POINTS)]
    )
    distribution = {"source": source, "count": len(seconds), "quantiles": _quantiles(seconds)} if len(seconds) else {}
    return Measured(values, distribution, tuple(curve), _cache(records), tuple(missing))


def _of_steps(seconds: np.ndarray, samples: np.ndarray) -> dict[str, float]:
    """Median and 99th percentile of the steps after the warm-up, and the samples a second of all of these."""
    first = min(int(len(seconds) * WARM_UP) + (len(seconds) > 4), len(seconds) - 1)
    kept = seconds[first:]
    found = {"step": float(np.median(kept))}
    if len(kept) >= 100:
        found["step_p99"] = float(np.quantile(kept, 0.99))
    if samples[first:].sum() > 0:
        found["throughput"] = float(samples[first:].sum() / kept.sum())
    return found


def _quantiles(seconds: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in np.quantile(seconds, QUANTILES)]


def _steps(records: Sequence[LogLine], path: Path | None) -> tuple[str, np.ndarray, np.ndarray, float]:
    """Where step times come from, the times in seconds, the samples of each, and the most memory in bytes."""
    if path is not None and path.exists():
        rows = _rows(path.read_text(encoding="utf-8", errors="replace"))
        if len(rows):
            return "steps", rows[:, 0], rows[:, 1], float(rows[:, 2].max())
    batch = _first(records, "global_batch_size")
    throughput = [value for item in records if (value := _throughput(item)) is not None]
    if throughput:
        seconds = (batch or 1.0) / np.array(throughput)
        return "tracked_stats", seconds, np.full(len(seconds), batch or 1.0), 0.0
    seconds, samples = _blocks(records, batch or 1.0)
    return "blocks", seconds, samples, 0.0


def _rows(text: str) -> np.ndarray:
    """The lines of a file of steps; broken ones are dropped: a run can be killed in the middle of one."""
    rows = []
    for line in text.splitlines():
        parts = line.split()
        try:
            row = [float(part) for part in parts]
        except ValueError:
            continue
        if len(row) == 3 and all(0 <= value < MOST for value in row) and row[0] > LEAST:
            rows.append(row)
    return np.array(rows).reshape(-1, 3)


def _throughput(item: LogLine) -> float | None:
    value = item.value["value"]
    if item.key == "tracked_stats" and isinstance(value, dict):
        value = value.get("throughput")
    elif item.key != "throughput":
        return None
    return float(value) if _positive(value) else None


def _blocks(records: Iterable[LogLine], batch: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean step of each block: from its start to its evaluation or end, over the samples that it trained."""
    begun: tuple[float, float] | None = None
    train_samples, seconds = None, []
    for item in records:
        place = logs.metadata(item)
        if item.key == "train_samples" and _positive(item.value["value"]):
            train_samples = float(item.value["value"])
        elif item.key == "block_start":
            begun = (item.timestamp, _size(place, train_samples))
        elif item.key in ("eval_start", "block_stop") and begun is not None:
            elapsed = (item.timestamp - begun[0]) / 1000
            if elapsed > 0 and begun[1]:
                seconds.append(elapsed * batch / begun[1])
            begun = None
    return np.array(seconds), np.full(len(seconds), batch)


def _size(place: Mapping[str, Any], train_samples: float | None) -> float | None:
    """The samples of a block. `epoch_count` counts epochs, in bert's logs samples."""
    count = place.get("epoch_count")
    if not _positive(count):
        return None
    return float(count) if count > 1000 else float(count) * train_samples if train_samples else None


def _to_target(records: Sequence[LogLine]) -> float | None:
    """Where the last evaluation was: in samples or epochs, as the log counts, which is the same for all its runs."""
    last = next((item for item in reversed(records) if item.key == "eval_accuracy"), None)
    place = logs.metadata(last) if last else {}
    found = place.get("samples_count", place.get("epoch_num"))
    return float(found) if _positive(found) else None


def _tracked(records: Sequence[LogLine], names: Sequence[str]) -> float | None:
    """The largest value that tracked_stats tell under one of the names."""
    found = [
        float(item.value["value"][name])
        for item in records
        if item.key == "tracked_stats" and isinstance(item.value["value"], dict)
        for name in names
        if _positive(item.value["value"].get(name))
    ]
    return max(found, default=None)


def _power(folder: Path) -> float | None:
    """Watts of all nodes and switches together: the mean reading of each file, times its conversion efficiency.

    Source: MLPerf power measurement rules; keys power_reading and conversion_eff in node_<j>.txt and sw_<k>.txt.
    """
    watts = 0.0
    for path in sorted([*folder.glob("node_*.txt"), *folder.glob("sw_*.txt")]):
        records = [item for item in logs.records(path) if isinstance(item, LogLine)]
        readings = [
            float(i.value["value"]) for i in records if i.key == "power_reading" and _positive(i.value["value"])
        ]
        watts += float(np.mean(readings)) * (_first(records, "conversion_eff") or 1.0) if readings else 0.0
    return watts or None


def _cache(records: Sequence[LogLine]) -> str:
    """How the run cleared its cache: `system`, `data`, `cleared` where the log does not say how, `not cleared`."""
    last = next((item for item in reversed(records) if item.key == "cache_clear"), None)
    if last is None or last.value["value"] is not True:
        return "not cleared"
    return str(logs.metadata(last).get("how", "cleared"))


def _first(records: Iterable[LogLine], key: str) -> float | None:
    return next((float(i.value["value"]) for i in records if i.key == key and _positive(i.value["value"])), None)


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and LEAST < value < MOST


def _keep(values: dict[str, float], name: str, value: float | None) -> None:
    if value is not None and LEAST < value < MOST:
        values[name] = value
