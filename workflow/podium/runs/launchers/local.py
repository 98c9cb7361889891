"""Launcher `local`: a run as processes of this machine, in a session of their own.

The run outlives the process that launched it: its id (pid and start time) is stored before it may begin, so that a
killed head process finds it again, and its end is written to a file that whoever waits for it can read.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium.runs.cores import Cores

STATUS, OUTPUT, SCRIPT = "exit_status", "output.log", "job.sh"
GRACE = 30  # seconds between SIGTERM and SIGKILL

# Reads a line first: when the launcher dies before it has stored the id, the pipe closes and nothing ever starts.
# The trap keeps the wrapper alive through a SIGTERM to the session, to write how the run took it.
_WRAPPER = (
    'read -r go || exit 125; exec </dev/null >"$2" 2>&1; trap : TERM; bash "$1"; echo $? >"$3.new"; mv "$3.new" "$3"'
)


@dataclass(frozen=True)
class Id:
    """A process by host, pid and start time (clock ticks since boot): a pid alone may be given out again."""

    host: str
    pid: int
    started: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def submit(folder: Path, command: Sequence[str], cores: Cores, stored: Callable[[Id], None]) -> Id:
    """Start `command` for the attempt in `folder`; `stored` is called with the id before the command may begin.

    The command is kept as `job.sh`, so that a person can run it by hand; what it prints goes to `output.log`.
    """
    script = folder / SCRIPT
    script.write_text(
        f"#!/usr/bin/env bash\n# This attempt, as it was launched.\nexec {shlex.join(command)}\n", encoding="utf-8"
    )
    script.chmod(0o755)
    words = ["bash", "-c", _WRAPPER, "podium", str(script), str(folder / OUTPUT), str(folder / STATUS)]
    # The wrapper inherits the affinity and the locks of the cores; this process only waits from here on.
    if cores.numbers:
        os.sched_setaffinity(0, cores.numbers)
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, start_new_session=True, pass_fds=cores.locks, stdout=subprocess.DEVNULL
    )
    id = Id(socket.gethostname(), process.pid, _start_time(process.pid) or 0)
    stored(id)
    with process.stdin as pipe:
        pipe.write(b"go\n")
    return id


def alive(id: Id) -> bool:
    """Whether the run's wrapper still lives; a finished child of ours is reaped."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(id.pid, os.WNOHANG)
    return id.host == socket.gethostname() and _start_time(id.pid) == id.started


def exit_status(folder: Path) -> int | None:
    """The exit status of an ended run; None when nobody wrote one (the machine went down, or it was killed)."""
    path = folder / STATUS
    return int(path.read_text()) if path.exists() else None


def cancel(id: Id) -> None:
    """End the run: SIGTERM to its whole session, SIGKILL to what is left after the grace period."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 5)):
        if not alive(id):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(id.pid, number)
        deadline = time.monotonic() + patience
        while alive(id) and time.monotonic() < deadline:
            time.sleep(0.05)


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/<pid>/stat (proc(5)); None for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
