"""Launcher `slurm`: an attempt as one job of Slurm.

An id is `<number>/<name>`: Slurm gives numbers out again after a crash of its controller, names are of one attempt
alone. The controller and the accounting may be away for hours: nothing is decided while nobody answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import files
from podium.config import System
from podium.errors import BadEnvironment, BadInput
from podium.runs.launchers import ENDED, SCRIPT, UNKNOWN, Job, State, sacct, sbatch, store
from podium.runs.launchers.sbatch import Options

LIMIT = 60  # seconds for one command: a controller that hangs is one that does not answer

# Words of Slurm's commands for a controller that is away, starting or overloaded: asking again may help.
_AWAY = (
    "unable to contact slurm controller",
    "timed out",
    "zero bytes were transmitted",
    "connection refused",
    "temporarily unable",
    "unable to establish",
    "slurm backup controller in standby",
    "resource temporarily unavailable",
    "protocol authentication error",
    "socket",
    "submitjoblimit",  # so many jobs at a time and no more: the next may come when one has ended
    "maxsubmitjob",
)


def options(system: System, place: Path) -> Options:
    """The options of a system; raises BadInput for one that the launcher sets itself."""
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in system.slurm.items()}
    made = Options(**given)
    sbatch.check(made, f"{place}: systems.{system.name}")
    return made


@dataclass(frozen=True)
class Slurm:
    """The cluster that Slurm's commands on this machine talk to."""

    options: Options

    @property
    def interval(self) -> float:
        return self.options.poll_seconds

    def submit(self, job: Job) -> str:
        """Submit the job, or find it: where `job.json` is there already, sbatch may have been asked before.

        Waits for a controller that is away. Raises BadInput with Slurm's words where it refuses the job, BadEnvironment
        where there is no Slurm, or none that answers within `outage_hours`.
        """
        asked_before = (job.folder / "job.json").exists()
        script = job.folder / SCRIPT
        if not asked_before:
            mpi = () if job.nodes * job.tasks == 1 else self._mpi()
            files.write_text(script, sbatch.script(job, self.options, mpi, os.environ.get("SLURM_CONF")))
            store(job, "slurm", None)
        deadline = time.monotonic() + self.options.outage_hours * 3600
        pause = 1.0
        while True:
            # Lost answer or none: whether there is a job is looked up before sbatch is asked once more.
            number, told = self._find(job) if asked_before else ("", "")
            if number == "":
                status, out, told = _ask(["sbatch", "--parsable", str(script)])
                if status != 0 and not _away(told):
                    raise _refused(job, told or out)
                number = sbatch.job_number(out)
            if number:
                id = f"{number}/{job.name}"
                store(job, "slurm", id)
                return id
            asked_before = True
            _wait_for_controller(pause, deadline, told)
            pause = min(pause * 2, 60)

    def states(self, ids: Sequence[str]) -> Mapping[str, State]:
        """One squeue for all; sacct, where accounting works, for those alone that the controller no longer knows.

        The controller is asked first: sacct lags behind it, and calls a job that the controller lost RUNNING for ever.
        """
        status, out, err = _ask(sbatch.squeue(_user()))
        if status != 0:
            return dict.fromkeys(ids, State(UNKNOWN, told=err.strip()))
        live = sacct.of(out)
        keys = {id: tuple(id.split("/", 1)) for id in ids}
        gone = [key[0] for key in keys.values() if key not in live]
        past = sacct.of(_ask(sbatch.sacct(_user(), gone))[1]) if gone else {}
        return {id: live.get(key) or _ended(past.get(key)) for id, key in keys.items()}

    def cancel(self, id: str, stacks: bool = False) -> None:
        """scancel of this number, if it still is of this name; raises BadEnvironment where nobody answers."""
        number, name = id.split("/", 1)
        ours = ["--quiet", f"--name={name}", f"--user={_user()}", number]
        if stacks:
            _ask(["scancel", "--signal=ABRT", *ours])
            time.sleep(5)
        for pause in (1, 5, 15, 30, 60, 0):
            status, _, err = _ask(["scancel", *ours])
            if status == 0 or not _away(err):
                return
            time.sleep(pause)
        raise BadEnvironment(
            f"job {number} is not cancelled", "an answer of slurmctld", err.strip(), f"scancel {number}"
        )

    def collect(self, id: str, folder: Path) -> None:
        """Nothing: the nodes see the folder."""

    def _find(self, job: Job) -> tuple[str | None, str]:
        """The number of the attempt's job ("" where Slurm knows none, None where nobody answers), and what was said."""
        if claim := sbatch.claimed(job.folder):
            return claim, ""
        status, out, told = _ask(sbatch.squeue(_user(), job.name))
        if status != 0:
            return None, told
        past = _ask(sbatch.sacct(_user(), name=job.name))[1]
        found = [row.number for row in sacct.rows(out + past) if row.name == job.name]
        return (found[0] if found else ""), ""

    def _mpi(self) -> tuple[str, ...]:
        if self.options.mpi != "auto":
            return () if self.options.mpi == "default" else (self.options.mpi,)
        _, out, err = _ask(["srun", "--mpi=list"])
        return sbatch.mpi_types(out + err)


def _ended(past: State | None) -> State:
    """The state of a job that the controller does not know: what accounting says of its end, else lost.

    The controller forgets a job MinJobAge after its end; one that accounting takes for live was lost with the
    controller's state. Whether it ran all the same, its folder says.
    """
    return past if past is not None and past.phase == ENDED else State(ENDED, "lost", "Slurm does not know the job")


def _user() -> str:
    return str(os.getuid())


def _ask(words: Sequence[str]) -> tuple[int, str, str]:
    """Status, output and errors of a command of Slurm; a hanging one is ended.

    Variables of an allocation that podium itself may run in would be taken for options, so they are not passed on.
    """
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key in kept}
    try:
        answer = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except FileNotFoundError as error:
        if words[0] == "sacct":
            return 1, "", "no sacct"
        raise BadEnvironment(
            f"no {words[0]} on this machine",
            "the commands of Slurm",
            "nothing on PATH",
            "start on a login node; podium doctor",
        ) from error
    except subprocess.TimeoutExpired:
        return 1, "", f"{words[0]} timed out after {LIMIT} s"
    return answer.returncode, answer.stdout, answer.stderr


def _away(err: str) -> bool:
    return any(words in err.lower() for words in _AWAY)


def _refused(job: Job, told: str) -> BadInput:
    script = job.folder / SCRIPT
    return BadInput(
        f"Slurm refuses the job of {job.folder}",
        "a job that the site allows",
        told.strip(),
        f"mend systems.<name>.slurm in the config and run the same command again; the script was {script}",
    )


def _wait_for_controller(pause: float, deadline: float, told: str) -> None:
    if time.monotonic() > deadline:
        raise BadEnvironment(
            "Slurm does not answer",
            "slurmctld",
            told.strip(),
            "scontrol ping; the same command again goes on where it was",
        )
    print(f"waiting for slurmctld: {told.strip() or 'no answer'}", file=sys.stderr, flush=True)
    time.sleep(pause)
