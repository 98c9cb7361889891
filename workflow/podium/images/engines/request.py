"""What every engine is asked: one command in an image, with what it may see of the machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from podium.errors import BadInput
from podium.images.lock import Image

# The config is sourced first, so that it cannot change who the run says it is.
_START = 'set -a; . "configs/$1.env"; set +a; shift; exec env "$@"'
PATIENCE = 20  # seconds that a program may take to say whether it is there


@dataclass(frozen=True)
class Mount:
    """A folder or file of the machine as the image sees it; engine `process` gives the image the folder's own name."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Run:
    """One command in an image.

    `config`: the `configs/<config>.env` that is sourced before `environment` is set; None: none is.
    `environment`, `words`: as seen from inside, with the targets of `mounts`.
    `name`: unique on a machine, see `name`.
    `gpus`: ordinal numbers; `devices`: how they get in, by `nvidia` (NVIDIA's container toolkit), `cdi`, `rocm`
    or `gaudi`; `nodes`: further device files, like /dev/infiniband.
    `cores`: binds an engine whose containers do not inherit the caller's affinity.
    `network`: the host's, or none. `read_only`: nothing can be written but to mounts and /tmp.
    `host_memory`: /dev/shm and IPC are the host's, which several containers of one run need to share theirs.
    `limits`: ulimits, -1 for none. `user`: (uid, gid), None for the caller. `workdir`: None for the image's own.
    `stop_seconds`: between SIGTERM and SIGKILL. `terminal`: a person sits before it.
    """

    image: Image
    config: str | None
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    name: str = ""
    words: tuple[str, ...] = ("./run_and_time.sh",)
    gpus: tuple[int, ...] = ()
    devices: str = "nvidia"
    nodes: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    network: bool = True
    read_only: bool = True
    host_memory: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    user: tuple[int, int] | None = None
    workdir: str | None = None
    stop_seconds: int = 30
    terminal: bool = False

    @property
    def folder(self) -> str:
        """The working directory inside the image."""
        return self.workdir or self.image.workdir or "/"


@dataclass(frozen=True)
class Availability:
    """Whether an engine can be used on this machine; `why` not, or what answered; its version."""

    ok: bool
    why: str
    version: str = ""


def caller() -> tuple[int, int]:
    """The user and the group that call: what a run writes belongs to them."""
    return os.getuid(), os.getgid()


def name(folder: Path) -> str:
    """The container's name of the attempt in `folder`: whoever knows the attempt can find and stop its container."""
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()
    return f"podium-{digest[:16]}"


def start(run: Run) -> list[str]:
    """What is executed in the image, in its working directory: the config, then the environment, then the words."""
    values = [f"{name}={value}" for name, value in run.environment.items()]
    if run.config is None:
        return ["env", *values, *run.words]
    return ["bash", "-euc", _START, "run", run.config, *values, *run.words]


def mounts(run: Run) -> tuple[Mount, ...]:
    """The mounts of a run; raises BadInput for a path that engines' command lines cannot carry."""
    for mount in run.mounts:
        for path in (str(mount.source), mount.target):
            if not path.startswith("/") or set(path) & set(",:\"'\n"):
                raise BadInput(
                    f"{path!r} cannot be mounted into an image",
                    "an absolute path without comma, colon, quote or newline",
                    path,
                    "put the work root (or data.root) into a folder with a plain name",
                )
    return run.mounts


def ask(*command: str) -> Availability:
    """Whether a program answers `command`: with its first line as the version, or with its last words as the reason."""
    if shutil.which(command[0]) is None:
        return Availability(False, f"{command[0]} is not on the PATH")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return Availability(False, f"{command[0]} does not answer within {PATIENCE} s")
    if answer.returncode != 0:
        told = (answer.stderr or answer.stdout).strip().splitlines()
        return Availability(False, told[-1] if told else f"{command[0]} ends with status {answer.returncode}")
    told = answer.stdout.strip().splitlines()
    return Availability(True, f"{shutil.which(command[0])} answers", told[0] if told else "")


def output(*command: str) -> str:
    """What a program that must succeed prints; empty where it does not, or is not there."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
