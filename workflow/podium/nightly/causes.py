"""Where changes for the worse come from: those that began together, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podium.nightly.measure import METRICS
from podium.nightly.verdict import NO_DATA, Verdict

TOGETHER = 2  # nights that two onsets may lie apart and be one change


@dataclass(frozen=True)
class Cause:
    """Changes for the worse that began together, and what they have in common: `system`, `software`, `unknown`."""

    kind: str
    text: str
    since: str
    good: str
    verdicts: tuple[Verdict, ...]


def causes(verdicts: Sequence[Verdict], calendar: Sequence[str]) -> list[Cause]:
    """Changes for the worse that began together, and whether they follow the system or the software.

    `verdicts` are those on all series, `calendar` all nights in order.
    """
    place = {night: position for position, night in enumerate(calendar)}
    left = sorted((verdict for verdict in verdicts if verdict.bad), key=lambda verdict: place[verdict.since])
    found = []
    while left:
        first = place[left[0].since]
        group = [verdict for verdict in left if place[verdict.since] - first <= TOGETHER]
        left = left[len(group) :]
        kind, text = _common(group, verdicts)
        main = min(group, key=lambda verdict: (list(METRICS).index(verdict.series.metric.name), place[verdict.since]))
        found.append(Cause(kind, text, main.since, main.good, tuple(group)))
    return found


def _common(group: Sequence[Verdict], verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """What the worse ones of a group have in common, that the others have not."""
    every = {(verdict.series.system, verdict.series.benchmark) for verdict in verdicts if verdict.word != NO_DATA}
    worse = {(verdict.series.system, verdict.series.benchmark) for verdict in group}
    systems, benchmarks = sorted({system for system, _ in worse}), sorted({benchmark for _, benchmark in worse})
    of_systems = {pair for pair in every if pair[0] in systems}
    of_benchmarks = {pair for pair in every if pair[1] in benchmarks}
    shown = ", ".join(f"{system}/{benchmark}" for system, benchmark in sorted(worse))
    if len(systems) > 1 and worse == of_benchmarks:
        return "software", f"{', '.join(benchmarks)} on all systems: its image or its data"
    if len(worse) > len(systems) and 2 * len(worse) > len(of_systems):
        count = "all" if worse == of_systems else f"{len(worse)} of {len(of_systems)}"
        elsewhere = sorted({system for system, _ in of_benchmarks - worse} - set(systems))
        compared = f"; not on {', '.join(elsewhere)}" if elsewhere else "; no other system runs them"
        what = "the system (driver, firmware, settings, storage)"
        return "system", f"{count} benchmarks of {', '.join(systems)}: {what}{compared}"
    if len(of_systems) > len(worse):
        return "software", f"{shown} and not the other benchmarks there: its image, its data, or what it alone uses"
    return "unknown", f"{shown}: with no other benchmark or system to compare, it may be the system or the software"
