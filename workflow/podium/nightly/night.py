"""A night: the runs that the config asks for, one after the other, through the same path as a submission's.

Each night has a small work root of its own, `<root>/nightly/nights/<night>`, with locked images, runs and a ledger: no
attempt of a night can get into a submission. Started again, a night goes on where it was. What a run was like becomes a
record of the history (history.py) as soon as it has ended.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podium import files, plan
from podium.config import Config, NightlyResult
from podium.errors import BadInput, PodiumError
from podium.images import lock
from podium.nightly import facts, history, measure
from podium.nightly.history import Record
from podium.plan import Plan
from podium.runs import ledger
from podium.runs.ledger import Attempt
from podium.runs.run import run

WATCHED = {"LOG_STEPS": "1"}  # what every run of a night is told (containers/common/steps.py)


@dataclass(frozen=True)
class Night:
    """What came of a night: a record for each run, those that could not be written; in words what is missing, and what
    speaks against trusting the rest."""

    name: str
    records: tuple[Record, ...]
    unwritten: tuple[Record, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def tonight(known: list[str], now: datetime.date) -> tuple[str, str]:
    """The name of the night that begins now, and a warning where the clock cannot be right.

    Nights are told apart and ordered by their names: where the clock was set back, the night follows the newest known.
    """
    today = now.isoformat()
    newest = max(known, key=history.order, default=today)
    if history.order(newest)[0] <= today:
        return today, ""
    date, number = history.order(newest)
    name = f"{date}.{number + 1}"
    return name, f"the clock says {today}, but night {newest} is known: this one is called {name}, to come after it"


def spend(config: Config, night: str) -> Night:
    """Run a night, or what is left of it. A run that fails is a record too; nothing but a wrong config raises."""
    root = history.folder(config)
    records, unwritten, missing, notes = [], [], [], []
    plans = []
    for one in config.nightly.results:
        if (wanted := _prepared(config, night, one, missing)) is not None:
            plans.append((wanted, one))
    # In turns, so that what the night does to one benchmark it does to all.
    for number in range(max((wanted.attempts for wanted, _ in plans), default=0)):
        for wanted, one in plans:
            if number >= wanted.attempts:
                continue
            own = _own(config, night)
            place = f"{wanted.system.name}/{wanted.benchmark} run {number + 1} of {wanted.attempts}"
            try:
                record, environment = _one(own, wanted, one, night, number, root)
            except (PodiumError, OSError) as error:
                missing.append(f"{place}: {_why(error)}")
                continue
            records.append(record)
            notes += [f"{place}: {what}" for what in record.notes]
            if record.outcome == "failed":
                missing.append(f"{place}: it failed, see {record.folder}")
            try:
                history.write(root, record, environment)
            except PodiumError as error:
                unwritten.append(record)
                missing.append(f"{place}: its record is not in the history ({_why(error)})")
            print(_line(place, record), file=sys.stderr, flush=True)
    return Night(night, tuple(records), tuple(unwritten), tuple(missing), tuple(notes))


def _why(error: Exception) -> str:
    """An error in a line."""
    return f"{error.thing}: {error.found}" if isinstance(error, PodiumError) else str(error)


def _own(config: Config, night: str) -> Config:
    """The config with the night's work root; the data stay where they are."""
    return replace(config, root=history.folder(config) / "nights" / night)


def _prepared(config: Config, night: str, one: NightlyResult, missing: list[str]) -> Plan | None:
    """The plan of a night's result, with the image locked as it is now; none where the image is missing."""
    base = plan.of(config, one.system, one.benchmark)
    wanted = cut(base, one)
    source, target = plan.image_file(config, base), plan.image_file(_own(config, night), base)
    if not target.exists():  # a night that is started again keeps the image with which it began
        if not source.exists():
            missing.append(f"{one.system}/{one.benchmark}: no image is locked in {source}; podium build")
            return None
        try:
            files.write_json(target, files.read_json(source))
        except (PodiumError, OSError, ValueError) as error:
            missing.append(f"{one.system}/{one.benchmark}: {source}: {_why(error)}")
            return None
    return wanted


def cut(wanted: Plan, one: NightlyResult) -> Plan:
    """The plan of a submission's result as a nightly runs it: cut short, and told to time its steps."""
    result = replace(
        wanted.result,
        time_limit_minutes=one.minutes or wanted.result.time_limit_minutes,
        stop_when_lost=False,
        environment=WATCHED | ({"STOP_AFTER_SAMPLES": str(one.samples)} if one.samples else {}),
    )
    return replace(wanted, result=result, attempts=one.runs)


def label(wanted: Plan, one: NightlyResult) -> str:
    """What the series of such runs is called: the settings, and how they are cut."""
    if one.samples:
        return f"{wanted.result.config}-{one.samples}-samples"
    return f"{wanted.result.config}-{one.minutes:g}-minutes" if one.minutes else wanted.result.config


def _one(own: Config, wanted: Plan, one: NightlyResult, night: str, number: int, root: Path) -> tuple[Record, dict]:
    """Make sure that one run has ended, and describe it. Raises PodiumError where there is none to describe."""
    folder = plan.result_folder(own, wanted)
    known = {attempt.number for attempt in ledger.attempts(folder) if attempt.record}
    looked = _looked_at(own, wanted, folder, number)
    try:
        attempt = run(own, wanted, number)
    except PodiumError:
        ended = [item for item in ledger.attempts(folder) if item.wanted == number and item.record]
        if not ended or ended[-1].number in known:
            raise
        attempt = ended[-1]
    said = facts.of_nodes(root.parent / "preflight" / wanted.system.name, attempt.record["nodes"])
    image = lock.parse(plan.image_file(own, wanted)).as_json()
    inside = {fact: image[fact] for fact in ("base", "commit", "versions", "system_packages") if image[fact]}
    environment = {**looked["facts"], **launched(folder / str(attempt.number)), **inside, **said}
    values = (label(wanted, one), one, night, root, files.hash_json(environment))
    return describe(folder, attempt, *values, looked["health"]), environment


def _looked_at(own: Config, wanted: Plan, folder: Path, number: int) -> Mapping[str, Any]:
    """What the node is and how it does, once for each run: kept, since a night that goes on must not ask again.

    Nodes that this process does not run on tell for themselves (`podium preflight`).
    """
    path = folder / f".before-{number}.json"
    if path.exists():
        return files.read_json(path)
    here = wanted.system.launcher == "local"
    looked = {
        "facts": (facts.of_this_node(own.data_root) if here else {})
        | ({"site": facts.of_site(own.nightly.facts)} if own.nightly.facts else {}),
        "health": facts.health(own.root) if here else [],
    }
    files.write_json(path, looked)
    return looked


def launched(home: Path) -> dict[str, Any]:
    """What the attempt's own files say of its surroundings."""
    path = home / "environment.json"
    return files.read_json(path) if path.exists() else {}


def describe(
    folder: Path,
    attempt: Attempt,
    config: str,
    one: NightlyResult,
    night: str,
    root: Path,
    environment: str,
    health: Sequence[str],
) -> Record:
    """The history's record of an attempt that has ended; the same, however often it is made."""
    home, facts_of = folder / str(attempt.number), attempt.record
    steps, power = home / "logs" / measure.STEPS, home / "logs" / "power"
    measured = measure.measure(home / "result.txt", steps, power if power.is_dir() else None)
    return Record(
        night=night,
        started=facts_of["started"],
        system=facts_of["system"],
        benchmark=facts_of["benchmark"],
        config=config,
        number=attempt.number,
        outcome=outcome(attempt, one, measured.values),
        nodes=tuple(facts_of["nodes"]),
        environment=environment,
        values={name: float(f"{value:.9g}") for name, value in measured.values.items()},
        steps=measured.steps,
        curve=measured.curve,
        cache=measured.cache,
        notes=(*measured.missing, *health),
        folder=str(home.relative_to(root)) if home.is_relative_to(root) else str(home),
        log=facts_of["log"]["sha256"],
    )


def outcome(attempt: Attempt, one: NightlyResult, values: Mapping[str, float]) -> str:
    """The outcome of the ledger, or `cut` where the run ended as it was planned to."""
    if attempt.outcome == "converged" or not values:
        return attempt.outcome
    if one.samples and attempt.outcome == "not_converged":
        return "cut"
    return "cut" if one.minutes and _minutes(attempt.record) >= one.minutes else attempt.outcome


def _minutes(record: Mapping[str, Any]) -> float:
    """From launch to end, by the clock of the machine that launched it; nan where that was set back."""
    started, stopped = (datetime.datetime.fromisoformat(record[name]) for name in ("started", "stopped"))
    minutes = (stopped - started).total_seconds() / 60
    return minutes if minutes >= 0 else math.nan


def _line(place: str, record: Record) -> str:
    step = f", step {record.values['step']:.4g} s" if "step" in record.values else ""
    return f"night {record.night} {place}: {record.outcome}{step}"


def check(config: Config) -> None:
    """Raise BadInput unless the config says what a night runs, and all of it is among its results."""
    if not config.nightly.results:
        raise BadInput(
            f"{config.path} says nothing of nights",
            "nightly.results: a list of system, benchmark and runs",
            "none",
            f"edit {config.path}; see config/README.md",
        )
    for one in config.nightly.results:
        plan.of(config, one.system, one.benchmark)
