"""Cores and accelerators for runs that go on side by side: each run holds its own, for as long as it lives.

One is held by a lock on a file that the run's processes inherit, so that the kernel frees it when the last of them
ends, and keeps it taken when only the process that launched them dies.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadEnvironment


@dataclass(frozen=True)
class Taken:
    """The numbers of what one run holds (empty: nothing of its own), and the file descriptors that hold them."""

    numbers: tuple[int, ...]
    locks: tuple[int, ...]


def take_cores(wanted: int, folder: Path | None = None) -> Taken:
    """Take `wanted` free cores of this machine; none where fewer are free: the run then shares them all."""
    return _take("", sorted(os.sched_getaffinity(0)), wanted, folder)


def take_gpus(wanted: int, folder: Path | None = None, there: Sequence[int] | None = None) -> Taken:
    """Take `wanted` accelerators, waiting until so many are free: two runs on one would slow each other.

    Raises BadEnvironment where this machine has fewer (`there`: their numbers, as nvidia-smi has them).
    """
    if not wanted:
        return Taken((), ())
    there = gpus() if there is None else there
    if len(there) < wanted:
        raise BadEnvironment(
            "too few accelerators on this machine", f"{wanted} of nvidia-smi -L", str(len(there)), "podium doctor"
        )
    told = False
    while not (taken := _take("gpu", there, wanted, folder)).numbers:
        if not told:
            print(
                f"waiting for {wanted} of {len(there)} accelerators: other runs have them", file=sys.stderr, flush=True
            )
        told = True
        time.sleep(1)
    return taken


def gpus() -> list[int]:
    """The numbers of the accelerators that this process may use."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [int(word) for word in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if word.isdecimal()]
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return list(range(sum(line.startswith("GPU ") for line in answer.stdout.splitlines())))


def _take(kind: str, there: Sequence[int], wanted: int, folder: Path | None) -> Taken:
    """The first `wanted` of `there` that are free; nothing where fewer are."""
    folder = folder or Path(tempfile.gettempdir()) / f"podium-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    numbers: list[int] = []
    locks: list[int] = []
    for number in there:
        if len(numbers) == wanted:
            break
        lock = os.open(folder / f"{kind}{number}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        numbers.append(number)
        locks.append(lock)
    if len(numbers) < wanted:
        for lock in locks:
            os.close(lock)
        return Taken((), ())
    return Taken(tuple(numbers), tuple(locks))
