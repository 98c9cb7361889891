"""`podium cancel`: end runs that go on, exactly those, and record that they were ended."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadEnvironment
from podium.plan import Plan
from podium.runs import launch, launchers, ledger
from podium.runs.launchers import CANCELLED, JOB
from podium.runs.ledger import Attempt
from podium.runs.run import lock_file, see_through


def cancel(config: Config, wanted: Plan, number: int | None) -> list[Attempt]:
    """End the attempts of a result that go on (of run `number` alone, if one is named); returns what was recorded."""
    folder = plan.result_folder(config, wanted)
    launcher = launchers.of(config, wanted.system)
    ended = []
    for attempt in _going_on(folder, number):
        home = folder / str(attempt.number)
        files.write_text(home / CANCELLED, f"podium cancel, {files.now()}\n")
        if id := files.read_json(home / JOB)["id"]:
            launcher.cancel(id)
        ended.append(_recorded(config, wanted, attempt))
    return ended


def _going_on(folder: Path, number: int | None) -> list[Attempt]:
    return [
        item
        for item in ledger.attempts(folder)
        if item.outcome == "open" and (folder / str(item.number) / JOB).exists() and number in (None, item.wanted)
    ]


def _recorded(config: Config, wanted: Plan, attempt: Attempt) -> Attempt:
    """The attempt with its record: by the process that waits for it, or by this one where none does."""
    folder = plan.result_folder(config, wanted)
    with files.locked(lock_file(folder, attempt.wanted)):
        [now] = [item for item in ledger.attempts(folder) if item.number == attempt.number]
        if now.outcome != "open":
            return now
        try:
            return see_through(config, wanted, launch.made_with(config, wanted), now)
        except BadEnvironment:  # says that it is no run, which is what was wanted
            [now] = [item for item in ledger.attempts(folder) if item.number == attempt.number]
            if now.outcome == "open":
                raise
            return now


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--attempt", type=int, help="which of the wanted runs, from 0 (default: all that go on)")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium cancel --system S --benchmark B [--attempt I]`."""
    config = configuration.load(args.config)
    wanted = plan.of(config, args.system, args.benchmark)
    ended = cancel(config, wanted, args.attempt)
    if args.json:
        print(json.dumps([item.record for item in ended]))
        return 0
    for item in ended:
        print(f"cancel {args.system}/{args.benchmark}: attempt {item.number} (run {item.wanted}) is {item.outcome}")
    if not ended:
        print(f"cancel {args.system}/{args.benchmark}: nothing goes on")
    return 0
