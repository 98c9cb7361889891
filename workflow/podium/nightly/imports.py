"""Runs that no night made, in the history: those of this config's own submission, and published logs.

A run's night is the date on which it began, by its own log or record. Imported again, nothing is added.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from podium import files, plan, progress
from podium.config import Config, NightlyResult
from podium.nightly import history, measure, night
from podium.nightly.history import Record
from podium.plan import Plan
from podium.runs import ledger
from podium.verdict import tree
from podium.verdict.reading import logs
from podium.verdict.tree import Result


def add(config: Config, trees: Sequence[Path]) -> tuple[int, list[str]]:
    """Add the runs of `trees`, or without any those of the config's own submission.

    Returns how many runs are now in the history, and what was passed over, with the reason.
    """
    root, passed, count = history.folder(config), [], 0
    found = _own(config, root, passed) if not trees else (item for path in trees for item in _published(path, passed))
    for record, environment in found:
        history.write(root, record, environment)
        count += 1
    return count, passed


def _own(config: Config, root: Path, passed: list[str]) -> Iterator[tuple[Record, dict[str, Any]]]:
    for wanted in plan.plans(config):
        folder = plan.result_folder(config, wanted)
        for attempt in ledger.attempts(folder):
            if attempt.record is None:
                passed.append(f"{wanted.system.name}/{wanted.benchmark} attempt {attempt.number}: it has not ended")
            else:
                yield _attempt(folder, wanted, attempt, root)


def _attempt(folder: Path, wanted: Plan, attempt: ledger.Attempt, root: Path) -> tuple[Record, dict[str, Any]]:
    environment = night.launched(folder / str(attempt.number))
    to_target = NightlyResult(wanted.system.name, wanted.benchmark, wanted.attempts, None, None)
    # By the record, not by today's config: the settings may have changed since.
    date, label = attempt.record["started"][:10], attempt.record["config"]
    record = night.describe(folder, attempt, label, to_target, date, root, files.hash_json(environment), ())
    return record, environment


def _published(path: Path, passed: list[str]) -> Iterator[tuple[Record, dict[str, Any]]]:
    found = tree.read(path)
    results = list(found.results)
    for result in progress.bar(results, f"import {path}", len(results), "result"):
        try:
            description = files.read_json(result.folder.parents[2] / "systems" / f"{result.system}.json")
        except (OSError, ValueError):
            description = {}
        environment = description if isinstance(description, dict) else {}
        for number, log in enumerate(result.logs):
            if (record := _log(result, number, log, files.hash_json(environment))) is not None:
                yield record, environment
            else:
                passed.append(f"{log}: no run_start, so its night is not known")


def _power_logs(result: Result, log: Path) -> Path | None:
    folder = result.folder / "power" / log.stem
    return folder if folder.is_dir() else None


def _log(result: Result, number: int, log: Path, environment: str) -> Record | None:
    """The record of a log that somebody published; its outcome is that of its own run_stop."""
    run = logs.read(log)
    try:
        started = datetime.datetime.fromtimestamp((run.started or 0) / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return None
    if run.started is None or started.year < 2000:
        return None
    measured = measure.measure(log, power=_power_logs(result, log))
    return Record(
        night=started.date().isoformat(),
        started=started.isoformat(timespec="milliseconds"),
        system=f"{result.submitter}:{result.system}",
        benchmark=result.benchmark,
        config="published",
        number=number,
        outcome="converged" if run.converged else "not_converged" if run.status else "failed",
        nodes=(),
        environment=environment,
        values=measured.values,
        steps=measured.steps,
        curve=measured.curve,
        cache=measured.cache,
        notes=measured.missing,
        folder=str(log),
        log=files.hash_file(log),
    )
