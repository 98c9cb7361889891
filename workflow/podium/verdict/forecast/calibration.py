"""How good the forecasts are: over finished results, forecast each from its first runs and compare with the whole.

An interval that is to hold 9 of 10 results may hold fewer: runs differ more than the model knows. History mends that.
Of finished results, how far each one's score lay from the middle of its interval is counted in half-widths; the factor
that nine tenths of them stay below is what intervals are stretched by (split conformal prediction, which needs no model
to be right, only results that are alike). A result never mends its own interval: its factor comes from all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from podium.verdict.forecast.model import INSIDE, Forecast, Interval

KNOWN = (1, 2, 3, 4, 5, 7, 9, 20, 35)  # numbers of runs that forecasts are made from
ENOUGH = 9  # results that a factor is made of: of fewer, none bounds nine tenths


@dataclass(frozen=True)
class Trial:
    """A forecast of a finished result from its first `known` runs, and what became of it.

    `what` is "score" or "scaled"; `accepted` is the forecast probability that the RCP test passes, None without RCPs.
    """

    name: str
    what: str
    known: int
    interval: Interval
    value: float
    accepted: float | None
    passed: bool | None

    @property
    def distance(self) -> float:
        """From the middle of the interval, in half-widths, on the logarithmic scale of the interval: 1 is its end."""
        middle, end = (
            self.interval.middle,
            self.interval.high if self.value > self.interval.middle else self.interval.low,
        )
        width = abs(math.log(end / middle))
        apart = abs(math.log(self.value / middle))
        # Rounded: the whole result is often the very end of an interval, where the last run is its slowest.
        return round(apart / width, 9) if width else 0.0 if apart < 1e-9 else math.inf


@dataclass(frozen=True)
class Row:
    """One line of the table: how many intervals held their result, as they were and with the others' factor.

    `known` is None for all together; `width` is the median of high / low - 1.
    """

    what: str
    known: int | None
    results: int
    held: float
    held_stretched: float
    factor: float | None
    width: float
    accepted: float | None
    passed: float | None


def trials(
    name: str, known: int, forecast: Forecast, score: float, scaled: float | None, passed: bool | None
) -> Iterator[Trial]:
    """The trials that one forecast of a finished result gives."""
    if forecast.score is not None:
        yield Trial(name, "score", known, forecast.score, score, forecast.accepted, passed)
    if forecast.scaled is not None and scaled is not None:
        yield Trial(name, "scaled", known, forecast.scaled, scaled, forecast.accepted, passed)


def factor(others: Sequence[Trial]) -> float:
    """What intervals are stretched by, from trials of other results with as many runs known; 1 from too few."""
    if len(others) < ENOUGH:
        return 1.0
    distances = sorted(trial.distance for trial in others)
    return distances[min(len(others), math.ceil(INSIDE * (len(others) + 1))) - 1]


def alike(all: Sequence[Trial], what: str, known: int) -> list[Trial]:
    """The trials to learn from for a forecast from `known` runs: those with the nearest number of runs."""
    mine = [trial for trial in all if trial.what == what]
    nearest = min((trial.known for trial in mine), key=lambda number: abs(number - known), default=known)
    return [trial for trial in mine if trial.known == nearest]


def table(all: Sequence[Trial]) -> list[Row]:
    """The check: for each number of known runs, how many intervals held; then all of them together."""
    rows = []
    for what in ("score", "scaled"):
        groups = {known: [trial for trial in alike(all, what, known) if trial.known == known] for known in KNOWN}
        checked = {known: [(trial, _learned(trial, same)) for trial in same] for known, same in groups.items() if same}
        rows += [_row(what, known, pairs) for known, pairs in checked.items()]
        if checked:
            rows.append(_row(what, None, [pair for pairs in checked.values() for pair in pairs]))
    return rows


def _learned(trial: Trial, same: Sequence[Trial]) -> float:
    """The factor for a trial from all results but its own."""
    return factor([other for other in same if other.name != trial.name])


def _row(what: str, known: int | None, pairs: Sequence[tuple[Trial, float]]) -> Row:
    trials = [trial for trial, _ in pairs]
    widths = sorted(trial.interval.high / trial.interval.low - 1 for trial in trials)
    return Row(
        what=what,
        known=known,
        results=len({trial.name for trial in trials}),
        held=_mean([trial.distance <= 1 for trial in trials]),
        held_stretched=_mean([trial.distance <= learned for trial, learned in pairs]),
        factor=factor(trials) if known else None,
        width=widths[len(widths) // 2],
        accepted=_mean([trial.accepted for trial in trials if trial.accepted is not None]),
        passed=_mean([trial.passed for trial in trials if trial.accepted is not None]),
    )


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal."""
    lines = [
        f"{'':7} {'runs':>4} {'results':>7} {'held':>6} {'held with':>9} {'factor':>6} {'width':>6} {'RCP passes':>16}"
    ]
    lines.append(f"{'':7} {'':>4} {'':>7} {'':>6} {'history':>9} {'':>6} {'':>6} {'forecast':>9} {'in fact':>6}")
    for row in rows:
        known, factor = row.known or "all", "" if row.factor is None else f"{row.factor:.2f}"
        told, became = ("-" if share is None else f"{share:.0%}" for share in (row.accepted, row.passed))
        lines.append(
            f"{row.what:7} {known:>4} {row.results:7} {row.held:6.1%} {row.held_stretched:9.1%} {factor:>6} "
            f"{row.width:6.1%} {told:>9} {became:>6}"
        )
    return "\n".join(lines)


def _mean(values: Sequence[float | None]) -> float | None:
    return sum(values) / len(values) if values else None


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [vars(row) for row in rows]
