"""Which round's rules a tree is held against."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from podium import arguments
from podium.errors import BadInput

FOLDER = re.compile(r"(?:^|_)v(\d+\.\d+)$")  # v3.0, training_results_v3.0


def argument(parser: argparse.ArgumentParser) -> None:
    """Add --round and --config to a verb that looks at trees."""
    parser.add_argument(
        "--round", help="the ruleset, like 3.1.0 (default: that of a folder named like v3.1, else that of the config)"
    )
    arguments.config(parser)


def of(args: argparse.Namespace, tree: Path) -> str:
    """The ruleset that is asked for; raises BadInput for one that the checker does not know."""
    if args.round:
        return checked(args.round)
    place = tree.resolve()
    for folder in (place, *place.parents):
        if name := FOLDER.search(folder.name):
            return checked(f"{name[1]}.0")
    from podium import config as configuration  # not read where the round is given

    return checked(configuration.load(args.config).submission.round)


def checked(round: str) -> str:
    """The round itself, where the pinned checker has rules for it."""
    from mlperf_logging.benchmark_meta import get_allowed_benchmarks

    try:
        get_allowed_benchmarks("training", round)
    except (KeyError, ValueError) as error:
        raise BadInput(f"unknown round {round}", "a ruleset like 3.1.0", str(error), "see config/README.md") from error
    if not re.fullmatch(r"\d+\.\d+\.\d+", round):
        raise BadInput(f"unknown round {round}", "a ruleset like 3.1.0", round, f"try --round {round}.0")
    return round
