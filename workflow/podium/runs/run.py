"""`podium run`: one wanted run of a result, launched, watched, recorded.

Run again, it does nothing where the run is recorded, waits again for one that is still going on, and launches a new
attempt only where the last one failed or was made with another image, other data or another config.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput, Findings, PodiumError
from podium.plan import Plan
from podium.runs import launch, launchers, ledger, watch
from podium.runs.finish import finish
from podium.runs.launch import Made
from podium.runs.launchers import JOB
from podium.runs.ledger import Attempt
from podium.verdict import attempts

STAMP = "stamp.json"  # Snakemake's output: it deletes its outputs before a job, which must never befall a record


def run(config: Config, wanted: Plan, number: int) -> Attempt:
    """Make sure that run `number` (from 0) of a result is recorded; returns its countable attempt.

    Raises BadInput for data or an image that is not what it must be, BadEnvironment for an attempt that failed for
    another cause than its training.
    """
    folder = plan.result_folder(config, wanted)
    made = launch.made_with(config, wanted)
    with files.locked(lock_file(folder, number)):
        every = ledger.attempts(folder)
        known = [item for item in every if (item.wanted, item.fingerprint) == (number, made.fingerprint)]
        for attempt in known:
            if attempt.countable:
                return attempt
            # Its end is not in the ledger: it goes on, or nobody saw it end, or it never got to its machine. (The
            # workflow makes the folder of one that ended and was removed again before it asks for a run.)
            if attempt.outcome == "open" and not attempt.ended and (folder / str(attempt.number)).is_dir():
                return see_through(config, wanted, made, attempt)
        if wanted.result.stop_when_lost and (why := attempts.lost(config, wanted, made.fingerprint)):
            raise _lost(config, wanted, number, why)
        launch.check_here(config, wanted)
        files.need_space(folder, 50_000_000, "the log of a run")
        attempt = ledger.launch(folder, number, made.fingerprint, wanted.attempts)
        for failed in known:
            words = f"attempt {failed.number} was {failed.outcome}{_cause(failed)}, now {attempt.number}"
            print(f"run {wanted.benchmark} {number}: {words}")
        return see_through(config, wanted, made, attempt)


def lock_file(folder: Path, number: int) -> Path:
    """Held by the one process that looks after run `number` of a result."""
    return folder / f".run-{number}.lock"


def see_through(config: Config, wanted: Plan, made: Made, attempt: Attempt) -> Attempt:
    """Launch an attempt of the ledger unless that was done, wait for its end, record it."""
    home = plan.result_folder(config, wanted) / str(attempt.number)
    job = files.read_json(home / JOB) if (home / JOB).exists() else {"id": None}
    launcher = launchers.of(config, wanted.system)
    id = job["id"] or launch.start(config, wanted, made, attempt, launcher)
    return finish(config, wanted, made, attempt, watch.wait(config, wanted, attempt, launcher, id, home))


def _cause(attempt: Attempt) -> str:
    return f" ({attempt.record['cause']})" if attempt.record and attempt.record.get("cause") else ""


def _lost(config: Config, wanted: Plan, number: int, why: str) -> PodiumError:
    return BadInput(
        f"run {number} of {wanted.benchmark} on {wanted.system.name} is not launched: the result is lost",
        "a result that its remaining runs can still make valid",
        why,
        f"mend the cause and make all runs anew; or unset stop_when_lost in {config.path}",
    )


def _stamp(config: Config, wanted: Plan, number: int, attempt: Attempt) -> None:
    """Tell the workflow that run `number` is recorded, and where."""
    path = plan.result_folder(config, wanted) / str(number) / STAMP
    files.write_json(path, {"attempt": attempt.number, "outcome": attempt.outcome, "fingerprint": attempt.fingerprint})


def _line(wanted: Plan, number: int, record: Mapping[str, Any]) -> str:
    quality = "no evaluation" if record["quality"] is None else f"quality {record['quality']:.4g}"
    length = record["cause"] if record["minutes"] is None else f"{record['minutes'] * 60:.1f} s"
    return (
        f"run {wanted.system.name}/{wanted.benchmark} {number + 1}/{wanted.attempts}: {record['outcome']}, "
        f"{quality}, {length}, seed {record['seed']}"
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system")
    parser.add_argument("--benchmark")
    parser.add_argument("--attempt", type=int, help="which of the wanted runs, from 0")
    parser.add_argument("--watch", action="store_true", help="launch nothing: show all runs until they have ended")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium run --system S --benchmark B --attempt I`: status 1 for a run that did not reach its target."""
    config = configuration.load(args.config)
    if args.watch:
        from podium.runs import table

        return table.show(config, args.system, args.benchmark, args.json)
    if None in (args.system, args.benchmark, args.attempt):
        raise BadInput("which run?", "--system, --benchmark and --attempt, or --watch", "not all three", "podium plan")
    wanted = plan.of(config, args.system, args.benchmark)
    if not 0 <= args.attempt < wanted.attempts:
        expected = f"0 to {wanted.attempts - 1}"
        raise BadInput(f"no run {args.attempt} of {wanted.benchmark}", expected, str(args.attempt), "podium plan")
    attempt = run(config, wanted, args.attempt)
    _stamp(config, wanted, args.attempt, attempt)
    print(json.dumps(attempt.record) if args.json else _line(wanted, args.attempt, attempt.record))
    sys.stdout.flush()
    if attempt.outcome == "not_converged":
        raise Findings(
            f"run {args.attempt} of {wanted.benchmark} did not converge",
            "run_stop with status success",
            f"{attempt.record['cause']}, quality {attempt.record['quality']} (attempt {attempt.number})",
            "nothing to redo: it counts as it is; `podium check` says whether the result still stands",
        )
    return 0
