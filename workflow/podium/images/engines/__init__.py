"""The engines that run an image: one module each, with the same functions, chosen by name."""

from __future__ import annotations

import importlib
import subprocess
from typing import Protocol

from podium.images.engines.request import Availability, Mount, Run, name, start
from podium.images.lock import Image

__all__ = ["NAMES", "Availability", "Engine", "Mount", "Run", "end", "name", "of", "start"]

NAMES = ("docker", "podman", "apptainer", "enroot", "process")


class Engine(Protocol):
    """What a module of this folder has. `enroot` also has `srun_flags(run)`: put `start(run)` behind srun with them."""

    def available(self) -> Availability:
        """Whether this machine has the engine, and whether its daemon, if any, answers."""

    def command(self, run: Run) -> list[str]:
        """The command line of a run; it ends when the run ends, with its status. Pure: it looks at nothing.

        Raises BadInput for what the engine cannot do. SIGTERM to it is passed on to the run.
        """

    def stop(self, name: str, seconds: int) -> list[list[str]]:
        """Commands, one after the other and whatever their statuses, after which no container of that name is left.

        The run has `seconds` between SIGTERM and SIGKILL. Empty where a run cannot outlive its command's process tree.
        """

    def held(self, image: Image) -> Image:
        """The image as this machine's engine holds it; raises BadInput where that is not the locked one, or nothing."""


def of(name: str) -> Engine:
    """The engine of that name; raises KeyError for one that is none (the config's schema knows them)."""
    if name not in NAMES:
        raise KeyError(name)
    return importlib.import_module(f"podium.images.engines.{name}")


def end(engine: str, name: str, seconds: int) -> None:
    """End the container of that name, if it is there, and remove it; it has `seconds` from SIGTERM to SIGKILL."""
    for command in of(engine).stop(name, seconds):
        subprocess.run(command, capture_output=True, check=False)
