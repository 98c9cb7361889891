"""The MLLOG file of one run: `$LOGDIR/mllog.txt`, written by rank 0 alone, in the order that the rules ask for.

Keys and order: MLPerf training rules, and mlperf_logging's compliance checker for the ruleset.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlperf_logging.mllog import mllog

from common.contract import Contract

NAME = "mllog.txt"


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass
class Outcome:
    """Set `reached` inside `timed` as soon as the target is met."""

    reached: bool = False


class Log:
    """A thin hold on mllog: `event`, `start`, `end`; nothing is written on ranks other than 0."""

    def __init__(self, contract: Contract, rank: int = 0, clock: Callable[[], int] = now) -> None:
        logger = logging.getLogger("podium-mllog")
        logger.propagate = False
        logger.setLevel(logging.INFO)
        logger.handlers = [logging.FileHandler(contract.log_dir / NAME)] if rank == 0 else [logging.NullHandler()]
        # root_dir is a regular expression to mllog; without it every line would carry a path of the site.
        self._mllog = mllog.MLLogger(logger, default_stack_offset=2, root_dir=re.escape(str(Path.cwd())))
        self._clock = clock

    def event(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.event(key, value, metadata=metadata or None, time_ms=self._clock())

    def start(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.start(key, value, metadata=metadata or None, time_ms=self._clock())

    def end(self, key: str, value: object = None, **metadata: object) -> None:
        self._mllog.end(key, value, metadata=metadata or None, time_ms=self._clock())

    def submission(self, benchmark: str, contract: Contract) -> None:
        """Who runs what: never a placeholder, always what the launcher said."""
        self.event("submission_benchmark", benchmark)
        self.event("submission_org", contract.org)
        self.event("submission_division", contract.division)
        self.event("submission_status", contract.status)
        self.event("submission_platform", contract.platform)

    @contextlib.contextmanager
    def timed(self) -> Iterator[Outcome]:
        """The timed part: run_start, then exactly one run_stop, `aborted` when the target was not reached.

        SIGTERM ends the process with run_stop `aborted`, even while it waits for a device or for other processes.
        """
        outcome, stopped = Outcome(), threading.Lock()

        def stop_once(status: str) -> None:
            if stopped.acquire(blocking=False):
                self.end("run_stop", status=status)

        def terminate() -> None:
            stop_once("aborted")
            os._exit(128 + signal.SIGTERM)  # the main thread may never come back from what it waits for

        self.start("run_start")
        with _on_sigterm(terminate):
            try:
                yield outcome
            finally:
                stop_once("success" if outcome.reached else "aborted")


@contextlib.contextmanager
def _on_sigterm(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` in a thread of its own as soon as SIGTERM comes.

    Python runs signal handlers in the main thread, between two of its own instructions: too late when that thread waits
    in a library. The number of the signal is written to a pipe at once (signal.set_wakeup_fd), and the thread reads it.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while number := os.read(reader, 1)[0]:
            if number == signal.SIGTERM:
                act()

    thread = threading.Thread(target=watch, daemon=True)
    handler = signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(writer)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, handler)
        os.write(writer, bytes(1))
        thread.join()
        os.close(writer)
        os.close(reader)


# A forked loader must neither tell its parent of a SIGTERM of its own nor ignore it. Until it has forgotten what its
# parent does with one, the signal waits.
def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _forget_sigterm() -> None:
    if signal.set_wakeup_fd(-1) != -1:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release_sigterm()


os.register_at_fork(before=_hold_sigterm, after_in_parent=_release_sigterm, after_in_child=_forget_sigterm)
