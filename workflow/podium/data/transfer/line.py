"""What all files of a transfer share: connections, a speed limit, an end, and patience with sources."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from podium.config import Transfer
from podium.data.transfer import Again, Changed, Refused, reader

TRIES = 6  # in a row without a byte
LONGEST_PAUSE = 60.0  # seconds
SMALL = 64 << 20  # bytes: more than any list of files has
Result = TypeVar("Result")


class Stopped(Exception):
    """The transfer was ended from outside."""


@dataclass(frozen=True)
class Line:
    """The connections, a wait until some bytes may come, a call that counts those that came, and the end."""

    connections: ThreadPoolExecutor
    wait_turn: Callable[[int], None]
    arrived: Callable[[int], None]
    ended: threading.Event

    def pause(self, failures: int, after: float | None) -> None:
        """Wait as long as the source wants, or ever longer with each failure and never twice the same."""
        seconds = random.uniform(0.5, 1) * min(LONGEST_PAUSE, 2.0 ** (failures - 1)) if after is None else after
        if self.ended.wait(seconds):
            raise Stopped


@contextlib.contextmanager
def line(transfer: Transfer, arrived: Callable[[int], None]) -> Iterator[Line]:
    """A line as the config wants it; on any error the rest of the transfer ends soon."""
    ended = threading.Event()
    with ThreadPoolExecutor(transfer.connections, thread_name_prefix="read") as pool:
        try:
            yield Line(pool, _limit(transfer.megabytes_per_second, ended), arrived, ended)
        except BaseException:
            ended.set()
            raise


def _limit(megabytes_per_second: float | None, ended: threading.Event) -> Callable[[int], None]:
    lock, due = threading.Lock(), time.monotonic()

    def wait_turn(count: int) -> None:
        nonlocal due
        if megabytes_per_second is None:
            return
        with lock:
            due = max(due, time.monotonic()) + count / (megabytes_per_second * 1e6)
            seconds = due - time.monotonic()
        ended.wait(seconds)

    return wait_turn


def patiently(action: Callable[[], Result], pause: Callable[[int, float | None], None]) -> Result:
    """The result of `action`, which is tried again after a pause when it raises Again, but not for ever."""
    for failures in range(1, TRIES + 1):
        try:
            return action()
        except Again as again:
            if failures == TRIES:
                raise Refused(f"{again} ({failures} tries)") from again
            pause(failures, again.after)
    raise AssertionError("the last try returns or raises")


def text(address: str) -> str:
    """A small file as text, without a line. Raises Refused."""

    def try_once() -> str:
        remote = reader(address).look(address)
        if (remote.bytes or 0) > SMALL:
            raise Refused(f"at most {SMALL} bytes expected, {remote.bytes} found")
        pieces = reader(address).read(address, remote, 0, remote.bytes) if remote.bytes != 0 else ()
        try:
            return b"".join(pieces).decode()
        except Changed as change:
            raise Again(str(change)) from change
        except UnicodeDecodeError as error:
            raise Refused(f"it is no text: {error}") from error

    return patiently(try_once, lambda failures, after: time.sleep(after if after is not None else failures))
