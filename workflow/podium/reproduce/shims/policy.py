"""What a run of foreign scripts may do, and what a call of theirs becomes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from podium.reproduce.sandbox import Inside


@dataclass(frozen=True)
class Policy:
    """The bounds of one run.

    `engine` runs containers: docker, podman, enroot (pyxis), apptainer, or process, where a container is our own
    sandbox with the code at `workdir`. `image` is the only image that may run. `read` and `write` are the folders that
    may be mounted. `always` are variables that every container gets, whether the scripts pass them on or not.
    `prefix` makes fixed container names unique. `programs` are folders of programs that a sandbox as a container needs,
    first on its `path`; `shims` those that scripts outside of containers need: ours, and the Python that runs them.
    `slurm` says that the run is a job of Slurm, in which alone steps may be started.
    """

    engine: str
    image: str
    code: str
    workdir: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    always: Mapping[str, str]
    prefix: str
    network: bool = False
    gpus: int = 0
    memory_gigabytes: float | None = None
    programs: tuple[str, ...] = ()
    path: str = ""
    shims: tuple[str, ...] = ()
    slurm: bool = False

    def may(self, source: str) -> str:
        """ro or rw for a folder that may be mounted; empty for one that may not."""
        place = PurePosixPath(os.path.normpath(source))
        for mode, folders in (("rw", self.write), ("ro", self.read)):
            if place.is_absolute() and any(place.is_relative_to(folder) for folder in folders):
                return mode
        return ""


@dataclass(frozen=True)
class Call:
    """A call of a foreign script: the program's words, its environment and its working folder."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str


@dataclass(frozen=True)
class Container:
    """A container that the scripts started and may go into: its mounts (source, target, mode), variables, folder."""

    mounts: tuple[tuple[str, str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""


@dataclass
class Containers:
    """Those of one run, by the name that the scripts gave them."""

    known: dict[str, Container] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """Nothing is executed: this is said, with this status."""

    text: str
    status: int = 0


@dataclass(frozen=True)
class Execute:
    """This is executed outside, as it is."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Shut:
    """This is executed in a sandbox; `before` are words that go in front of it (srun and its options)."""

    inside: Inside
    before: tuple[str, ...] = ()


Outcome = Answer | Execute | Shut
Translator = Callable[[Call, Policy, Containers], Outcome]


def refused(what: str, why: str, status: int = 125) -> Answer:
    return Answer(f"podium: {what} is refused: {why}", status)


def skipped(what: str, why: str) -> Answer:
    """A call that is left out, and taken as done."""
    return Answer(f"podium: {what} is left out: {why}")


def boxed(policy: Policy, mounts: Sequence[tuple[str, str, str]], environment: Mapping[str, str], folder: str,
          words: Sequence[str]) -> Inside:  # fmt: skip
    """Our own sandbox as a container: the code at its place, the mounts, and the programs that were given."""
    read = [(policy.code, policy.workdir), *((path, path) for path in policy.programs)]
    read += [(source, target) for source, target, mode in mounts if mode == "ro"]
    write = [(source, target) for source, target, mode in mounts if mode == "rw"]
    given = {**environment, **policy.always}
    if policy.path:
        given["PATH"] = policy.path
    return Inside(tuple(words), folder or policy.workdir, tuple(read), tuple(write), given, network=policy.network)
