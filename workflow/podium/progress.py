"""Progress of a long step: a tqdm bar on a terminal, a line a minute in a log."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def bar(items: Iterable[Item], what: str, total: int | None = None, unit: str = "it") -> Iterator[Item]:
    """Pass `items` through and show how far it is; a step shorter than a minute leaves no line in a log."""
    yield from _shown(what, total, unit, items)


@contextlib.contextmanager
def counter(what: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """A function that any thread calls with how much more has been done; shown as `bar` shows it."""
    lock = threading.Lock()
    with _shown(what, total, unit) as shown:

        def count(more: int) -> None:
            with lock:
                shown.update(more)

        yield count


def _shown(what: str, total: int | None, unit: str, items: Iterable[Item] | None = None) -> tqdm:
    terminal = sys.stderr.isatty()
    return tqdm(
        items,
        desc=what,
        total=total,
        unit=unit,
        unit_scale=unit == "B",
        mininterval=0.2 if terminal else 60,
        miniters=None if terminal else 1,
        delay=0 if terminal else 60,
        leave=terminal,
        ascii=not terminal,
    )
