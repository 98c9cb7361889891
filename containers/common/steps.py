"""What a nightly asks of an implementation beside its log: the time of every step, and to stop early.

LOG_STEPS=1             the first process writes `$LOGDIR/steps.txt`: a line a step, with its seconds, its samples, and
                        the most bytes of memory so far (of the device where there is one, else of the process)
STOP_AFTER_SAMPLES=N    the run ends, not converged, after the step that has brought it to N training samples

Without them nothing is done. A device works behind the host's clock: single steps are as the host sees them, their sum
is right wherever the host has to wait, at the latest when a loss is read.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeVar

import torch

from common.contract import stop

NAME = "steps.txt"
FLUSH = 1.0  # seconds; a run may be killed at any time

Step = TypeVar("Step")
_done = 0  # training samples of this process's run


def watched(steps: Iterable[Step], samples: int) -> Iterator[Step]:
    """Pass `steps` through, each of which trains `samples` samples over all processes.

    Every process counts the same, so that all stop at the same step.
    """
    limit = int(os.environ.get("STOP_AFTER_SAMPLES") or 0)
    log = _open()
    flushed = began = time.monotonic()
    for step in steps:
        yield step
        now = time.monotonic()
        if log:
            log.write(f"{now - began:.6f} {samples} {_memory()}\n")
            if now - flushed > FLUSH:
                log.flush()
                flushed = now
        began = now
        if _counted(samples) >= limit > 0:
            if log:
                log.close()
            stop(f"stopped after {_done} training samples, as STOP_AFTER_SAMPLES={limit} asks", status=1)
    if log:
        log.close()


def _open() -> IO[str] | None:
    if os.environ.get("LOG_STEPS") != "1" or os.environ.get("RANK", "0") != "0":
        return None
    return (Path(os.environ["LOGDIR"]) / NAME).open("a", encoding="utf-8")


def _counted(samples: int) -> int:
    global _done
    _done += samples
    return _done


def _memory() -> int:
    """Bytes."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
