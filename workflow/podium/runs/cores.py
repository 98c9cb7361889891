"""Cores for runs that go on side by side: each run holds its own, for as long as it lives.

A core is held by a lock on a file that the run's processes inherit, so that the kernel frees it when the last of them
ends, and keeps it taken when only the process that launched them dies.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """The cores of one run (empty: not pinned), and the file descriptors that hold them."""

    numbers: tuple[int, ...]
    locks: tuple[int, ...]


def take(wanted: int, folder: Path | None = None) -> Cores:
    """Take `wanted` free cores of this machine; none where fewer are free: the run then shares them all."""
    folder = folder or Path(tempfile.gettempdir()) / f"podium-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    numbers: list[int] = []
    locks: list[int] = []
    for core in sorted(os.sched_getaffinity(0)):
        if len(numbers) == wanted:
            break
        lock = os.open(folder / str(core), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        numbers.append(core)
        locks.append(lock)
    if len(numbers) < wanted:
        for lock in locks:
            os.close(lock)
        return Cores((), ())
    return Cores(tuple(numbers), tuple(locks))
