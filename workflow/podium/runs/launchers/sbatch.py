"""The sbatch script of one attempt, and the words of Slurm's commands: pure functions, tested without Slurm.

One allocation that we ask for ourselves, one `srun` in it: the Snakemake plugin cannot express a training on several
nodes, names jobs by a new number at each start, and lets Slurm start a failed one again.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadInput
from podium.runs.launchers import NODES, OUTPUT, RANKS, STATUS, TOLD, UNFIT, Job

CLAIM = "claim"  # a link to the id of the job that runs the attempt
PORTS = (20_000, 10_000)  # of the meeting point: first, how many; the job's number picks one

# What the script decides itself, and why nobody else may (`slurm.extra` in the config).
REFUSED = {
    "array": "each attempt is a job of its own, so that one can be cancelled, lost or repeated alone",
    "hetjob": "heterogeneous jobs have several ids and no common srun environment; use systems of equal nodes",
    "job-name": "the attempt is found again by its name",
    "requeue": "a run that Slurm starts again writes a second run into the log of the first",
    "output": "the log of the attempt is looked for in its folder",
    "error": "the log of the attempt is looked for in its folder",
    "wait": "podium waits itself, so that it can be killed",
    "wrap": "the script is the attempt's",
    "export": "the environment of the run is part of the attempt",
    "signal": "set slurm.signal_seconds",
    "nodes": "set nodes of the system",
    "ntasks": "set slurm.tasks_per_node",
    "ntasks-per-node": "set slurm.tasks_per_node",
    "cpus-per-task": "set threads of the system",
    "gpus-per-node": "set gpus_per_node of the system, or slurm.gres",
    "time": "set time_limit_minutes of the result",
    "exclude": "set slurm.exclude",
}
_SHORT = {"a": "array", "J": "job-name", "o": "output", "e": "error", "W": "wait", "N": "nodes", "n": "ntasks"}
_SHORT |= {"c": "cpus-per-task", "t": "time", "x": "exclude"}


@dataclass(frozen=True)
class Options:
    """`systems.<name>.slurm` of the config (config/README.md)."""

    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    gres: str | None = None
    exclude: tuple[str, ...] = ()
    exclusive: bool = True
    memory: str | None = None
    tasks_per_node: int | None = None
    mpi: str = "auto"
    signal_seconds: int = 60
    poll_seconds: float = 15
    outage_hours: float = 24
    extra: tuple[str, ...] = ()


def check(options: Options, place: str) -> None:
    """Raise BadInput for an `extra` that the script sets itself; `place` is for the message."""
    for word in options.extra:
        name = re.match(r"--([a-z-]+)|-([A-Za-z])|(:)", word)
        key = name and (name[1] or _SHORT.get(name[2] or "") or ("hetjob" if name[3] else None))
        if key in REFUSED:
            raise BadInput(
                f"{place}: slurm.extra has {word}", "options that podium does not set", REFUSED[key], "remove it"
            )


def script(job: Job, options: Options, mpi: Sequence[str], config: str | None) -> str:
    """The script. Of the types `mpi`, srun takes the first that works (none given: its default); `config` is the
    SLURM_CONF that its commands must keep.

    It claims the attempt first: of two jobs of one attempt (an sbatch whose answer was lost) only one ever runs it.
    """
    step = _step(job, options, mpi, job.command((), range(job.gpus)))
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            "# This attempt, as it was launched: one allocation, one step.",
            *(f"#SBATCH {option}" for option in _directives(job, options)),
            "set -uo pipefail",
            f"cd {shlex.quote(str(job.folder))} || exit 65",
            *([f"export SLURM_CONF={shlex.quote(config)}"] if config else []),
            f'if ! ln -s "$SLURM_JOB_ID" {CLAIM}; then',
            f'  echo "job $SLURM_JOB_ID: not run, the attempt is of job $(readlink {CLAIM} || echo none)" >&2',
            "  exit 64",
            "fi",
            f'scontrol show hostnames "$SLURM_JOB_NODELIST" >{NODES}',
            *_before(job, options, mpi),
            f"trap 'date >{TOLD}; kill -TERM \"$step\"' TERM",
            f"{step} </dev/null &",
            "step=$!",
            'wait "$step"; status=$?',
            'while kill -0 "$step" 2>/dev/null; do wait "$step"; status=$?; done',
            f'echo "$status" >{STATUS}.new && mv {STATUS}.new {STATUS}',
            'exit "$status"',
            "",
        ]
    )


def _task(job: Job) -> str:
    """What every task does before and after its command: says who it is in the words of torchrun, and tidies up.

    srun's own address is one that every task reaches, since they report to it. A container is its daemon's child: the
    task stays until it is gone.
    """
    ranks = (
        "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
        "MASTER_ADDR=${SLURM_LAUNCH_NODE_IPADDR:-localhost} "
        f"MASTER_PORT=$(({PORTS[0]} + SLURM_JOB_ID % {PORTS[1]}))"
    )
    named = [
        ranks,
        "words=()",
        "for word; do",
        *(f"  word=${{word//@{name}@/${name}}}" for name in RANKS),
        '  words+=("$word")',
        "done",
    ]
    if job.nodes * job.tasks == 1:
        named = ['words=("$@")']
    if not job.after:
        return "\n".join([*named, 'exec "${words[@]}"'])
    tidy = [f"{shlex.join(words)} >/dev/null 2>&1" for words in job.after]
    for name in RANKS:  # a container's name has its rank
        tidy = [line.replace(f"@{name}@", f"${name}") for line in tidy]
    ended = ['"${words[@]}" &', "run=$!", "trap 'kill -TERM \"$run\"' TERM", 'wait "$run"; status=$?']
    ended += ['while kill -0 "$run" 2>/dev/null; do wait "$run"; status=$?; done', *tidy, 'exit "$status"']
    return "\n".join([*named, *ended])


def _before(job: Job, options: Options, mpi: Sequence[str]) -> list[str]:
    """What is run on each node first, and by all tasks together: where it fails on one, nothing begins."""
    unfit = f"{{ echo {UNFIT} >{STATUS}.new && mv {STATUS}.new {STATUS}; exit {UNFIT}; }}"
    once = ["srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1"]
    # srun lists types of MPI whose libraries are not there: only trying tells.
    lines = (
        [f'for mpi in {shlex.join(mpi)}; do {shlex.join(once)} --mpi="$mpi" true 2>/dev/null && break; done']
        if mpi
        else []
    )
    steps = [shlex.join([*once, *job.before])] if job.before else []
    steps += [_step(job, options, mpi, job.trial((), range(job.gpus)))] if job.trial else []
    return [*lines, *(f"{step} </dev/null || {unfit}" for step in steps)]


def _directives(job: Job, options: Options) -> list[str]:
    gpus = [f"--gres={options.gres}"] if options.gres else [f"--gpus-per-node={job.gpus}"] if job.gpus else []
    avoid = sorted({*options.exclude, *job.avoid})
    site = ("account", "partition", "qos", "reservation", "constraint")
    return [
        f"--job-name={job.name}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.tasks}",
        f"--cpus-per-task={job.threads}",
        *gpus,
        *(["--exclusive"] if options.exclusive else []),
        *([f"--mem={options.memory}"] if options.memory else []),
        f"--time={math.ceil(job.minutes + options.signal_seconds / 60)}",
        f"--signal=B:TERM@{options.signal_seconds}",
        "--no-requeue",
        f"--output={str(job.folder / OUTPUT).replace('%', '%%')}",
        "--open-mode=append",
        *(f"--{name}={value}" for name in site if (value := getattr(options, name))),
        *([f"--exclude={','.join(avoid)}"] if avoid else []),
        *options.extra,
    ]


def _step(job: Job, options: Options, mpi: Sequence[str], command: Sequence[str]) -> str:
    """`srun` with every number said again: what it takes over from the allocation differs between versions of Slurm."""
    words = [
        "srun",
        f"--nodes={job.nodes}",
        f"--ntasks={job.nodes * job.tasks}",
        f"--ntasks-per-node={job.tasks}",
        f"--cpus-per-task={job.threads}",
        *([f"--gres={options.gres}"] if options.gres else [f"--gpus-per-node={job.gpus}"] if job.gpus else []),
        "--kill-on-bad-exit=1",
        *job.flags,
    ]
    task = shlex.join(["bash", "-c", _task(job), "task", *command])
    return f"{shlex.join(words)}{' --mpi=$mpi' if mpi else ''} {task}"


def mpi_types(listed: str) -> tuple[str, ...]:
    """The types of `srun --mpi=list` that ranks of one training may have, the best first."""
    words = re.findall(r"^(?:srun:)?\s*(\w+)\s*$", listed, re.MULTILINE)
    return tuple(name for name in ("pmix", "pmi2", "none") if name in words)


def job_number(answer: str) -> str | None:
    """The id in what `sbatch --parsable` prints (`ID` or `ID;CLUSTER`); sites' wrappers print lines of their own."""
    found = [line for line in answer.splitlines() if re.fullmatch(r"\d+(;\S+)?", line.strip())]
    return found[-1].strip().partition(";")[0] if found else None


def claimed(folder: Path) -> str | None:
    """The id of the job that runs the attempt in `folder`; None before one began."""
    link = folder / CLAIM
    return str(link.readlink()) if link.is_symlink() else None


def squeue(user: str, name: str | None = None) -> list[str]:
    """One call for every job of `user`, ended ones too, or for those of one name."""
    return [
        "squeue",
        "--noheader",
        "--states=all",
        f"--user={user}",
        *([f"--name={name}"] if name else []),
        "--format=%i|%T|%r|%j",
    ]


def sacct(user: str, numbers: Sequence[str] = (), name: str | None = None) -> list[str]:
    """One call for these jobs, or for those of one name; ids are given out again, so it asks for all that had them."""
    which = [f"--jobs={','.join(numbers)}"] if numbers else [f"--name={name}", "--starttime=now-30days"]
    return [
        "sacct",
        "--allocations",
        "--noheader",
        "--parsable2",
        "--duplicates",
        f"--user={user}",
        *which,
        "--format=JobIDRaw,State,Reason,JobName",
    ]
