"""Run tasks in several processes, the largest first, without holding more memory at once than the machine has free."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any, TypeVar

from podium.errors import BadInput

Key = TypeVar("Key", bound=Hashable)
_SHARE = 0.8  # of the free memory; the rest is for the page cache that the files go through


def in_memory(
    pool: Executor, workers: int, work: Callable[..., Any], tasks: Mapping[Key, tuple], needs: Mapping[Key, int]
) -> Iterator[tuple[Key, Any]]:
    """Yield (key, `work(*tasks[key])`) as they finish; in place of the result the BadInput that the work raised.

    `needs` bounds the bytes of each task. A task that alone needs more than is free runs alone.
    """
    waiting = sorted(tasks, key=lambda key: needs[key])
    free = int(free_memory() * _SHARE)
    running: dict[Future, Key] = {}
    while waiting or running:
        while waiting and len(running) < workers and (not running or needs[waiting[-1]] <= free):
            key = waiting.pop()
            running[pool.submit(work, *tasks[key])] = key
            free -= needs[key]
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            key = running.pop(future)
            free += needs[key]
            yield key, _result(future)


def free_memory() -> int:
    """Bytes that this process may still take: MemAvailable, or less where its control group has a limit."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    group = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::/")[2].strip()
    limit, used = group / "memory.max", group / "memory.current"
    if limit.exists() and (most := limit.read_text(encoding="ascii").strip()) != "max":
        free = min(free, int(most) - int(used.read_text(encoding="ascii")))
    return free


def _result(future: Future) -> Any:
    try:
        return future.result()
    except BadInput as error:
        return error
