"""MLLOG lines of a result file, read as the official parser reads them (mlperf_logging mlp_parser, rulesets >= 0.7).

A line counts when it holds `:::MLLOG `; what stands before the last such token is dropped; the rest must be JSON with
`key`, `value`, `time_ms`, `event_type` and `metadata`. Text is latin-1, so that no byte can break the reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = ":::MLLOG "


@dataclass(frozen=True)
class Event:
    """One MLLOG record. `line` counts the lines of the file from 1; `time_ms` is milliseconds since the epoch."""

    line: int
    time_ms: int
    key: str
    value: Any
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Broken:
    """A line with the token that is no record; `why` says what is wrong."""

    line: int
    why: str


@dataclass(frozen=True)
class Evaluation:
    """One eval_accuracy: where in the training it was (epochs or samples), its value, minutes since run_start."""

    epoch: float
    value: float
    minutes: float


@dataclass(frozen=True)
class Run:
    """What one result log says. Times are in milliseconds since the epoch; None where the log is silent."""

    status: str | None
    started: int | None
    stopped: int | None
    init_started: int | None
    seed: int | None
    batch_size: int | None
    evaluations: tuple[Evaluation, ...]
    broken: tuple[Broken, ...]
    events: int

    @property
    def minutes(self) -> float | None:
        """Time to train in minutes: run_stop - run_start, the score of the run."""
        if self.started is None or self.stopped is None:
            return None
        return (self.stopped - self.started) / 60_000

    @property
    def converged(self) -> bool:
        return self.status == "success"


def parse_line(text: str, number: int) -> Event | Broken | None:
    """One line of a log: a record, a broken record, or None for any other text."""
    _, token, rest = text.rpartition(TOKEN)
    if not token:
        return None
    try:
        value = json.loads(rest)
    except ValueError as error:
        return Broken(number, f"not JSON: {error}")
    if not isinstance(value, dict):
        return Broken(number, "JSON, but no object")
    if missing := [name for name in ("key", "value", "time_ms", "metadata") if name not in value]:
        return Broken(number, f"without {', '.join(missing)}")
    metadata = value["metadata"] if isinstance(value["metadata"], dict) else {}
    if not isinstance(value["time_ms"], (int, float)):
        return Broken(number, "time_ms is no number")
    return Event(number, int(value["time_ms"]), str(value["key"]), value["value"], metadata)


def parse(lines: Iterable[str]) -> Iterator[Event | Broken]:
    """Every record of a log, in file order."""
    for number, text in enumerate(lines, 1):
        if (item := parse_line(text, number)) is not None:
            yield item


def read(path: Path) -> Run:
    """Read a result log; never raises for its content."""
    with path.open(encoding="latin-1", newline="\n") as file:
        return summarise(parse(file))


def summarise(items: Iterable[Event | Broken]) -> Run:
    """The run that the records tell of: the first run_start and run_stop, every evaluation between."""
    first: dict[str, Event] = {}
    evaluations: list[Evaluation] = []
    broken: list[Broken] = []
    count = 0
    for item in items:
        if isinstance(item, Broken):
            broken.append(item)
            continue
        count += 1
        first.setdefault(item.key, item)
        epoch = item.metadata.get("epoch_num", item.metadata.get("samples_count"))
        if item.key == "eval_accuracy" and _number(item.value) and _number(epoch):
            start = first["run_start"].time_ms if "run_start" in first else item.time_ms
            evaluations.append(Evaluation(float(epoch), float(item.value), (item.time_ms - start) / 60_000))
    stop = first.get("run_stop")
    return Run(
        status=str(stop.metadata.get("status")) if stop else None,
        started=first["run_start"].time_ms if "run_start" in first else None,
        stopped=stop.time_ms if stop else None,
        init_started=first["init_start"].time_ms if "init_start" in first else None,
        seed=_whole(first.get("seed")),
        batch_size=_whole(first.get("global_batch_size")),
        evaluations=tuple(evaluations),
        broken=tuple(broken),
        events=count,
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(event: Event | None) -> int | None:
    return int(event.value) if event is not None and _number(event.value) else None
