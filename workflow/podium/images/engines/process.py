"""Engine `process`: the implementation in a virtual environment on the host.

Its image is a snapshot of the implementation's files beside a virtual environment that is shared by all implementations
with equal requirements. Nothing isolates it: it is the demo's engine, and the one for a machine without containers.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from podium.errors import BadInput
from podium.images.engines import request
from podium.images.engines.request import Availability, Mount, Run
from podium.images.lock import Image

VISIBLE = {  # the variable by which each maker's libraries are told which devices are theirs
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "cdi": "CUDA_VISIBLE_DEVICES",
    "rocm": "HIP_VISIBLE_DEVICES",
    "gaudi": "HABANA_VISIBLE_DEVICES",
}


def available() -> Availability:
    """Always: whoever runs this has a Python to make environments with."""
    return Availability(True, "a virtual environment on the host", ".".join(map(str, sys.version_info[:3])))


def environment(venv: Path) -> dict[str, str]:
    """What puts the virtual environment first, whatever the caller's shell had active."""
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONNOUSERSITE": "1"}


def command(run: Run) -> list[str]:
    """The command line of a run in its virtual environment, in an environment of its own.

    Nothing is mounted: what the environment and the words call by a mount's target is named by its source instead.
    Raises BadInput for a run that must have no network, or another user, which a bare process cannot be kept to.
    """
    if not run.network or run.user is not None:
        raise BadInput(
            "engine process cannot isolate a run",
            "engine docker, podman or apptainer for a run without network or as another user",
            "engine process",
            "choose another engine in the config",
        )
    venv = Path(run.image.venv)
    devices = {VISIBLE[run.devices]: ",".join(map(str, run.gpus))} if run.gpus else {}
    inside = {name: _outside(value, run.mounts) for name, value in run.environment.items()}
    words = tuple(_outside(word, run.mounts) for word in run.words)
    whole = dataclasses.replace(run, environment=inside | devices | environment(venv), words=words)
    folder = str(Path(run.workdir or run.image.implementation).absolute())
    base = ["HOME=/nonexistent", "LANG=C.UTF-8", f"PATH={venv}/bin:/usr/bin:/bin"]
    return ["env", "--ignore-environment", f"--chdir={folder}", *base, *request.start(whole)]


def _outside(value: str, mounts: Sequence[Mount]) -> str:
    """A path below a mount's target as the host knows it; any other value as it is."""
    for mount in mounts:
        if value == mount.target or value.startswith(f"{mount.target}/"):
            return f"{mount.source}{value.removeprefix(mount.target)}"
    return value


def stop(name: str, seconds: int) -> list[list[str]]:
    """Nothing: a run is the process tree that its launcher started."""
    return []


def held(image: Image) -> Image:
    """The image itself: reading its lock has held the snapshot and the environment to it."""
    return image
