"""Launchers: how an attempt gets onto the machines that run it. One interface, one module for each.

`submit` stores the id in the attempt's `job.json` before anything may run, and is safe to repeat: a job whose answer
was lost is found again by its name. The job itself leaves its end in the attempt's folder (`exit_status`, design
section 5), so that a run ends without a word from the scheduler; `states` tells what a folder cannot: waiting, lost, a
dead node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from podium import files
from podium.config import Config, System
from podium.errors import BadInput

JOB, STATUS, OUTPUT, SCRIPT, NODES = "job.json", "exit_status", "output.log", "job.sh", "nodes"
CANCELLED = "cancelled"  # there where `podium cancel` ended the job
UNFIT = 66  # exit status of a job that did not begin: a node did not pass what came before
TOLD = "told_to_stop"  # there where the scheduler told the job that its time is nearly up, or that it is cancelled

PENDING, RUNNING, ENDED, UNKNOWN = "pending", "running", "ended", "unknown"


RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # as torchrun calls them


@dataclass(frozen=True)
class Job:
    """One attempt as a launcher gets it.

    `name` is of this attempt alone, in the whole world; `folder` its folder, absolute, seen by all its nodes. `command`
    gives what starts one task, from the numbers of its cores (empty: not pinned) and of its accelerators; `before` is
    run once on each node and `trial` (formed like `command`) by all tasks, and the task begins only where both end well
    everywhere; `after` are commands for when it has ended, whatever their statuses; `flags` are srun's for a container
    (pyxis). Every node has `tasks`, each with `threads` cores, and `gpus` accelerators. `minutes` is the most that it
    may take, `avoid` are nodes that must not get it; `image` (in a registry) and `data` are for nodes that do not see
    our files.

    Of several tasks, each finds in its words who it is: `@RANK@` and so on (RANKS) are replaced where it starts.
    """

    name: str
    folder: Path
    command: Callable[[Sequence[int], Sequence[int]], Sequence[str]]
    before: tuple[str, ...] = ()
    trial: Callable[[Sequence[int], Sequence[int]], Sequence[str]] | None = None
    after: tuple[tuple[str, ...], ...] = ()
    flags: tuple[str, ...] = ()
    nodes: int = 1
    tasks: int = 1
    gpus: int = 0
    threads: int = 1
    minutes: float = 1440
    avoid: tuple[str, ...] = ()
    image: str = ""
    data: Path | None = None


@dataclass(frozen=True)
class State:
    """What a launcher knows of a job. `cause` is why it ended, where that is no end of its own (see CAUSES); `told` is
    the scheduler's own word for it. UNKNOWN: nobody answers, or this machine cannot know."""

    phase: str
    cause: str = ""
    told: str = ""


# Why a job ended that did not end by itself; each is evidence that the machine failed and not the training.
CAUSES = ("cancelled", "time limit", "node failed", "preempted", "out of memory", "not started", "interrupted", "lost")


class Launcher(Protocol):
    """`interval` is the time in seconds between two status calls for all jobs together; 0: a look costs nothing."""

    interval: float

    def submit(self, job: Job) -> str:
        """Start a job, or find it where it was started before; its id is stored before it can run."""

    def states(self, ids: Sequence[str]) -> Mapping[str, State]:
        """What is known of each of these jobs, by one call; UNKNOWN of all where nobody answers."""

    def cancel(self, id: str, stacks: bool = False) -> None:
        """End this job and no other; with `stacks` its Python processes first print where they are."""

    def collect(self, id: str, folder: Path) -> None:
        """Bring what an ended job left into its attempt's folder, where its nodes do not see that themselves."""


def of(config: Config, system: System) -> Launcher:
    """The launcher that the config names for a system; raises BadInput for one that the system cannot be run by."""
    if system.launcher == "slurm":
        from podium.runs.launchers.slurm import Slurm, options

        return Slurm(options(system, config.path))
    if system.launcher == "aws_batch":
        from podium.runs.launchers.aws_batch import AwsBatch
        from podium.runs.launchers.aws_batch import options as aws_options

        return AwsBatch(aws_options(system))
    from podium.runs.launchers.local import Local

    if system.nodes > 1:
        raise BadInput(
            f"system {system.name} has {system.nodes} nodes", "one node with launcher local", "more", "launcher: slurm"
        )
    return Local()


def store(job: Job, launcher: str, id: str | None, **more: Any) -> None:
    """Write `job.json`: an id of None: the job may have been handed over, and is to be looked for by name."""
    files.write_json(
        job.folder / JOB, {"launcher": launcher, "name": job.name, "id": id, "submitted": files.now(), **more}
    )


def exit_status(folder: Path) -> int | None:
    """The exit status of an ended job; None when nobody wrote one (the machine went down, or it was killed)."""
    path = folder / STATUS
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdecimal() else None


def nodes(folder: Path) -> list[str]:
    """The nodes that the job said it is on; none before it started."""
    path = folder / NODES
    return path.read_text(encoding="utf-8").split() if path.exists() else []
