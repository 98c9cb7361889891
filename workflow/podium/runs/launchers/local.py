"""Launcher `local`: a run as processes of this machine, in a session of their own.

The run outlives the process that launched it: its id (host, boot, pid and start time) is stored before it may begin, so
that a killed head process finds it again, and its end is written to a file that whoever waits for it can read.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import files
from podium.runs import devices
from podium.runs.launchers import ENDED, NODES, OUTPUT, RUNNING, SCRIPT, STATUS, UNKNOWN, Job, State, store

GRACE = 30  # seconds between SIGTERM and SIGKILL

# Reads a line first: when the launcher dies before it has stored the id, the pipe closes and nothing ever starts.
# The trap keeps the wrapper alive through a signal to the session, to write how the run took it.
_WRAPPER = (
    'read -r go || exit 125; exec </dev/null >"$2" 2>&1; trap : TERM ABRT; '
    'bash "$1"; echo $? >"$3.new"; mv "$3.new" "$3"'
)


@dataclass(frozen=True)
class Local:
    """This machine. A job gets cores of its own where enough are free, and accelerators that no other job has."""

    interval: float = 0

    def submit(self, job: Job) -> str:
        """Start the job; nothing ever starts where its id could not be stored, so there is none to find again.

        The command is kept as `job.sh`, so that a person can run it by hand; what it prints goes to `output.log`.
        """
        cores = devices.take_cores(job.threads * job.tasks)
        gpus = devices.take_gpus(job.gpus)
        script = job.folder / SCRIPT
        files.write_text(script, _script(job.command(cores.numbers, gpus.numbers), job.after))
        script.chmod(0o755)
        words = ["bash", "-c", _WRAPPER, "podium", str(script), str(job.folder / OUTPUT), str(job.folder / STATUS)]
        # The wrapper inherits the affinity of this process and the locks; what it holds, this process need not.
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores.numbers or every)
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=cores.locks + gpus.locks,
        )
        os.sched_setaffinity(0, every)
        id = f"{socket.gethostname()}:{_boot()}:{process.pid}:{_start_time(process.pid) or 0}"
        files.write_text(job.folder / NODES, socket.gethostname() + "\n")
        store(job, "local", id, cores=cores.numbers, gpus=gpus.numbers)
        with process.stdin as pipe:
            pipe.write(b"go\n")
        for lock in cores.locks + gpus.locks:
            os.close(lock)
        return id

    def states(self, ids: Sequence[str]) -> Mapping[str, State]:
        """RUNNING while the job's wrapper lives, UNKNOWN where it was started on another host."""
        return {id: _state(id) for id in ids}

    def cancel(self, id: str, stacks: bool = False) -> None:
        """SIGTERM to the whole session, SIGKILL to what is left after the grace period."""
        pid = int(id.split(":")[2])
        steps = ((signal.SIGABRT, 3),) if stacks else ()
        for number, patience in (*steps, (signal.SIGTERM, GRACE), (signal.SIGKILL, 5)):
            if _state(id).phase != RUNNING:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
            deadline = time.monotonic() + patience
            while _state(id).phase == RUNNING and time.monotonic() < deadline:
                time.sleep(0.05)

    def collect(self, id: str, folder: Path) -> None:
        """Nothing: it is there."""


def _script(command: Sequence[str], after: Sequence[Sequence[str]]) -> str:
    """The attempt as a person can start it again; what a container engine leaves behind is removed at its end."""
    head = "#!/usr/bin/env bash\n# This attempt, as it was launched.\n"
    if not after:
        return f"{head}exec {shlex.join(command)}\n"
    tidy = "\n".join(f"{shlex.join(words)} >/dev/null 2>&1" for words in after)
    return f"{head}trap : TERM ABRT\n{shlex.join(command)}\nstatus=$?\n{tidy}\nexit $status\n"


def _state(id: str) -> State:
    host, boot, pid, started = id.split(":")
    if host != socket.gethostname():
        return State(UNKNOWN, told=f"started on {host}, this is {socket.gethostname()}")
    with contextlib.suppress(ChildProcessError):  # a finished child of ours is reaped
        os.waitpid(int(pid), os.WNOHANG)
    if boot != _boot():
        return State(ENDED, "lost", f"{host} was started anew")
    return State(RUNNING if _start_time(int(pid)) == int(started) else ENDED)


def _boot() -> str:
    """This start of the kernel: pids and start times are given out again after the next."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/<pid>/stat (proc(5)); None for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
