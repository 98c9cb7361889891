"""How long the missing runs take, by those that have ended."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Sequence

from podium.package.sources import Source
from podium.runs.ledger import Attempt


def hours(source: Source, attempts: Sequence[Attempt], missing: int) -> float:
    """What the missing runs of a result take one after another: by those that have ended, before that by its limit."""
    if missing <= 0:
        return 0.0
    lengths = [length for attempt in attempts if attempt.countable and (length := _length(attempt))]
    usual = statistics.median(lengths) if lengths else source.item.result.time_limit_minutes / 60
    return missing * usual


def _length(attempt: Attempt) -> float | None:
    """Hours from launch to end."""
    record = attempt.record or {}
    if not record.get("started") or not record.get("stopped"):
        return None
    start, stop = (datetime.datetime.fromisoformat(record[key]) for key in ("started", "stopped"))
    return (stop - start).total_seconds() / 3600


def needed(of_systems: Iterable[tuple[float, Sequence[Attempt]]]) -> float | None:
    """Hours until the last missing run: systems work side by side, each as many runs at a time as it was seen to do.

    Each system is given by the hours that its missing runs take one after another, and its attempts so far.
    """
    return max((hours / max(1, at_a_time(attempts)) for hours, attempts in of_systems), default=None)


def at_a_time(attempts: Sequence[Attempt]) -> int:
    """The most attempts that went on at the same time, of those that have ended."""
    records = [item.record for item in attempts if item.record and item.record.get("stopped")]
    events = [(record["started"], 1) for record in records] + [(record["stopped"], -1) for record in records]
    most = now = 0
    for _, step in sorted(events):
        now += step
        most = max(most, now)
    return most
