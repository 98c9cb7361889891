"""`podium shell`: into an image, as a run of it would find things: data, environment, user, devices."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from podium import config as configuration
from podium import plan
from podium.config import Config
from podium.images import build, engines, lock
from podium.images.engines import choose
from podium.plan import Plan
from podium.runs import contract


def command(config: Config, wanted: Plan, words: tuple[str, ...], terminal: bool) -> list[str]:
    """The command line of `words` in the image of a result; what it writes to /logs lies in `<root>/shell/…`."""
    engine, image = choose.runner(wanted.system.engine, lock.read(plan.image_file(config, wanted)))
    logs = config.root / "shell" / wanted.benchmark
    logs.mkdir(parents=True, exist_ok=True)
    data = plan.data_folder(config, wanted.dataset)
    mounts = contract.mounts(data, logs)
    run = engines.Run(
        image=image,
        config=wanted.result.config,
        environment=contract.environment(config, wanted, seed=1),
        mounts=mounts if data.exists() else mounts[1:],
        name=engines.name(Path(f"{logs}/{os.getpid()}")),
        words=words,
        gpus=tuple(range(wanted.system.gpus_per_node)),
        devices=wanted.system.devices,
        terminal=terminal,
    )
    return engines.of(engine).command(run)


def arguments(parser: argparse.ArgumentParser) -> None:
    build.which(parser)
    parser.add_argument("words", nargs="*", default=["bash"], help="a command instead of bash, behind --")


def main(args: argparse.Namespace) -> int:
    """`podium shell --system S --benchmark B [-- COMMAND …]`: ends with the command's status."""
    config = configuration.load(args.config)
    [wanted, *_] = build.selected(config, args)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    words = command(config, wanted, tuple(args.words), terminal)
    sys.stdout.flush()
    os.execvp(words[0], words)
