"""Progress of a long step: a tqdm bar on a terminal, a line a minute in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def bar(items: Iterable[Item], what: str, total: int | None = None, unit: str = "it") -> Iterator[Item]:
    """Pass `items` through and show how far it is; a step shorter than a minute leaves no line in a log."""
    terminal = sys.stderr.isatty()
    yield from tqdm(
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
