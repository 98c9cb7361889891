"""Many independent pieces of work: in this process, or in several that end with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from podium import progress

Task = Callable[[], Any]
Run = Callable[[Sequence[Task], str], list[Any]]  # runs tasks, says what for, and returns what each returned


@contextmanager
def runner(workers: int) -> Iterator[Run]:
    """What runs tasks in so many processes. The error of one ends the whole, and what has not begun does not begin."""
    if workers == 1:
        yield _one_by_one
    else:
        with processes(workers) as pool:
            yield partial(_in_parallel, pool)


def processes(workers: int) -> Executor:
    """So many processes that end with this one; for one worker a thread, which starts at once."""
    if workers == 1:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent)


def _one_by_one(tasks: Sequence[Task], what: str) -> list[Any]:
    return [task() for task in progress.bar(tasks, what, unit="file")]


def _in_parallel(pool: Executor, tasks: Sequence[Task], what: str) -> list[Any]:
    running = [pool.submit(task) for task in tasks]
    try:
        return [task.result() for task in progress.bar(running, what, unit="file")]
    finally:
        for task in running:
            task.cancel()


def _end_with_parent() -> None:
    """Let a worker die as soon as the process that it works for is gone, however that was killed."""
    parent = parent_process()
    Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
