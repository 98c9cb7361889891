"""What the report tells of each attempt: its convergence, where its time went, what it ran on."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import files
from podium.package.sources import Source
from podium.runs import ledger
from podium.runs.ledger import Attempt
from podium.verdict.reading import logs
from podium.verdict.reading.logs import Broken, LogLine, Run


@dataclass(frozen=True)
class Told:
    """One attempt: the ledger's words, what its log says, and seconds of initialisation, training and evaluation."""

    attempt: Attempt
    run: Run
    init: float | None
    train: float | None
    evaluate: float | None
    environment: Mapping[str, Any]

    @property
    def last(self) -> tuple[float, float] | None:
        """The last evaluation: where, and its value."""
        return (self.run.evaluations[-1].epoch, self.run.evaluations[-1].value) if self.run.evaluations else None


def attempts(source: Source) -> list[Told]:
    """Every attempt of a result made with what the newest one was made with, in launch order."""
    return [_told(source, attempt) for attempt in ledger.current(ledger.attempts(source.folder))]


def _told(source: Source, attempt: Attempt) -> Told:
    home = source.folder / str(attempt.number)
    log = home / "result.txt"
    records = list(logs.records(log)) if log.exists() else []
    run = logs.summarise(records, source.item.task.key)
    environment = home / "environment.json"
    evaluate = _evaluation(records)
    seconds = None if run.minutes is None else run.minutes * 60
    return Told(
        attempt=attempt,
        run=run,
        init=None if run.started is None or run.init_started is None else (run.started - run.init_started) / 1000,
        train=None if seconds is None else max(0.0, seconds - evaluate),
        evaluate=None if seconds is None else evaluate,
        environment=files.read_json(environment) if environment.exists() else {},
    )


def _evaluation(records: Sequence[LogLine | Broken]) -> float:
    """Seconds between eval_start and eval_stop, from the first run_start to run_stop; several ranks count once."""
    total, began, running = 0.0, None, False
    for record in records:
        if isinstance(record, Broken):
            continue
        running = running or record.key == "run_start"
        if record.key == "eval_start" and running and began is None:
            began = record.timestamp
        elif record.key == "eval_stop" and began is not None:
            total, began = total + max(0.0, record.timestamp - began) / 1000, None
        elif record.key == "run_stop":
            break
    return total


def environments(told: Sequence[Told]) -> dict[str, dict[str, list[int]]]:
    """What is not the same for all attempts: by name, each value with the attempts that had it."""
    flat = {item.attempt.number: _flat(item.environment) for item in told if item.environment}
    found: dict[str, dict[str, list[int]]] = {}
    for name in sorted({name for facts in flat.values() for name in facts}):
        values: dict[str, list[int]] = {}
        for number, facts in flat.items():
            values.setdefault(facts.get(name, "absent"), []).append(number)
        if len(values) > 1:
            found[name] = values
    return found


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": str(item)}
    return flat


def target(round: str, benchmark: str) -> float | None:
    """The quality that the closed division must reach, from the pinned checker's rule file; None where it has none."""
    spec = importlib.util.find_spec("mlperf_logging")
    path = Path(spec.origin).parent / "compliance_checker" / f"training_{round}" / f"closed_{benchmark}.yaml"
    if not path.exists():
        return None
    accuracy = path.read_text(encoding="utf-8").partition("eval_accuracy")[2]
    found = re.search(r"v\['value'\]\s*[<>]=?\s*([\d.]+)", accuracy.partition("- KEY")[0])
    return float(found[1]) if found else None
