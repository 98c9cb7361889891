"""How a command takes being told to stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C within: a workflow that is told to stop ends its jobs by it, and what was begun (a run, a
    container, a half-written file) is ended or cleared away before this process ends."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
