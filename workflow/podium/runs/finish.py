"""How an attempt ended, by evidence: a training that met or missed its target, or a machine that failed it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium import files, plan
from podium.config import Config
from podium.errors import BadEnvironment, PodiumError
from podium.images import engines
from podium.plan import Plan
from podium.runs import events, launchers, ledger
from podium.runs.launch import Made
from podium.runs.launchers import JOB, OUTPUT
from podium.runs.ledger import Attempt
from podium.runs.watch import Ending
from podium.verdict import attempts
from podium.verdict.reading import logs

TIDY = 3  # seconds that a container whose job is gone has to end: the job had its own
# What a training was ended for that went on, but not to its target: it missed it, and its run is not made again.
MISSED = ("not a number", "time is up", "time limit")


def finish(config: Config, wanted: Plan, made: Made, attempt: Attempt, ending: Ending) -> Attempt:
    """Record how an attempt ended, and say what the rules of the round make of it.

    Raises BadEnvironment, once it is recorded, for one that failed for another cause than its training.
    """
    folder = plan.result_folder(config, wanted)
    home = folder / str(attempt.number)
    job = files.read_json(home / JOB)
    if job["launcher"] == "local" and launchers.exit_status(home) is None:
        # The job was cut off before its own last words: its container is no child of it, and may go on.
        engines.end(made.engine, engines.name(home), TIDY)
    _collect(home)
    log = logs.read(home / "result.txt", wanted.task.key)
    outcome, cause = judge(log, ending)
    facts = {
        "attempt": attempt.number,
        "wanted": attempt.wanted,
        "system": wanted.system.name,
        "benchmark": wanted.benchmark,
        "implementation": wanted.implementation,
        "config": wanted.result.config,
        "round": config.submission.round,
        "seed": attempt.seed,
        "fingerprint": attempt.fingerprint,
        "image": made.image.reference,
        "data": made.content.sha256,
        "nodes": launchers.nodes(home),
        "launcher": job["launcher"],
        "job": job["id"],
        "started": job["submitted"],
        "stopped": files.now(),
        "exit_status": launchers.exit_status(home),
        "outcome": outcome,
        "cause": cause,
        "told": ending.told,
        "quality": log.evaluations[-1].value if log.evaluations else None,
        "minutes": log.minutes,
        "log": {"bytes": (home / "result.txt").stat().st_size, "sha256": files.hash_file(home / "result.txt")},
    }
    closed = ledger.close(folder, attempt, facts)
    events.tell(
        config.root / "runs",
        "recorded",
        system=wanted.system.name,
        benchmark=wanted.benchmark,
        attempt=attempt.number,
        outcome=outcome,
        cause=cause,
    )
    _tell(wanted, attempts.landed(config, wanted, closed))
    if not closed.countable:
        raise _failure(config, wanted, closed, home)
    return closed


def judge(log: logs.Run, ending: Ending) -> tuple[str, str]:
    """The outcome, and what it rests on.

    A log with run_start and run_stop is a training that came to its end, whatever befell the machine later. Without, a
    loss that is no number, or a training that went on until its time was up, has missed its target: to launch it anew
    would be to choose among runs. Everything else is a failure of the machine, and says which.
    """
    if log.rehearsal:
        return "failed", "a rehearsal, which trains nothing"
    if log.minutes is not None:
        return ("converged" if log.converged else "not_converged"), f"run_stop {log.status}"
    if ending.log.not_a_number and ending.cause in ("", "not a number"):
        return "not_converged", ending.log.not_a_number
    if ending.cause in MISSED and log.started is not None:
        return "not_converged", ending.cause
    if ending.cause == "cancelled" or ending.cause == "degraded":
        return "cancelled", ending.cause
    return "failed", ending.cause or ("no run_stop in the log" if log.started else "no run_start in the log")


def _collect(home: Path) -> None:
    """The result log: the file with MLLOG lines in LOGDIR, or what the run printed."""
    candidates = [*sorted((home / "logs").rglob("*")), home / OUTPUT]
    chosen = next((path for path in candidates if path.is_file() and logs.TOKEN.encode() in path.read_bytes()), None)
    with files.writing(home / "result.txt") as writer:
        if chosen is not None:
            with chosen.open("rb") as reader:
                shutil.copyfileobj(reader, writer)


def _tell(wanted: Plan, verdict: Mapping[str, Any]) -> None:
    """Say at once what the rules of the round say of an attempt that has ended."""
    words = "complies" if verdict["compliant"] else "does not comply"
    told = [f"\n  {line}" for message in verdict["messages"] for line in message.splitlines()[:1]]
    place = f"{wanted.system.name}/{wanted.benchmark} attempt {verdict['attempt']}"
    print(f"check {place}: {words}{''.join(told)}", file=sys.stderr)


def _failure(config: Config, wanted: Plan, attempt: Attempt, home: Path) -> PodiumError:
    """Why a run did not end as a training does: told apart by its log, not by its exit status alone."""
    again = (
        f"podium run --system {wanted.system.name} --benchmark {wanted.benchmark} --attempt {attempt.wanted} "
        f"--config {config.path} launches a new attempt; this one stays in the ledger"
    )
    output = home / OUTPUT
    last = output.read_text(encoding="utf-8", errors="replace").splitlines()[-8:] if output.exists() else []
    record = attempt.record
    why = f"{attempt.outcome}: {record['cause']} ({record['told']}), exit status {record['exit_status']}"
    return BadEnvironment(
        f"attempt {attempt.number} of {wanted.benchmark} on {wanted.system.name} is no run",
        "a log with run_start and run_stop",
        "\n    ".join([f"{why}; the last lines of {output}:", *last]),
        again,
    )
