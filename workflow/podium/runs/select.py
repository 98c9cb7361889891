"""Which attempts count: decided by the published rule alone, and the choice is written down so that it can be redone.

Training rules, section on scoring (T 514-526): N runs in launch order; where M > N were launched as a group, the window
of N consecutive runs with the median score, where a window that has no valid score counts as infinitely slow. If the
median window has none, the result has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from podium.runs.ledger import Attempt


@dataclass(frozen=True)
class Window:
    """N consecutive runs: the numbers of their attempts, their score in minutes (None where it is not valid), and its
    place among all windows, from 0 for the fastest; equal scores are placed in launch order."""

    attempts: tuple[int, ...]
    minutes: float | None
    rank: int


@dataclass(frozen=True)
class Choice:
    """The counted attempts, in launch order, and the words of the rule that chose them.

    `windows` are all that there were to choose from, `chosen` the index of the one that counts; `passed_over` are
    attempts that are no runs: they failed for another cause than their training, or have not ended.
    """

    counted: tuple[Attempt, ...]
    rule: str
    windows: tuple[Window, ...]
    chosen: int
    passed_over: tuple[Attempt, ...]

    def proof(self) -> dict[str, Any]:
        """The choice for the verdict: with the minutes of the attempts anybody can make it again."""
        return {
            "rule": self.rule,
            "order": "launch, as the ledger has it",
            "windows": [{**vars(window), "attempts": list(window.attempts)} for window in self.windows],
            "chosen": self.chosen,
            "passed_over": [{"attempt": item.number, "outcome": item.outcome} for item in self.passed_over],
        }


def choose(attempts: Sequence[Attempt], required: int, score: Callable[[Sequence[Attempt]], float | None]) -> Choice:
    """Choose `required` of the countable attempts (given in launch order); fewer are all returned.

    `score` gives the minutes of a window, None where it is invalid.
    """
    runs = [attempt for attempt in attempts if attempt.countable]
    passed_over = tuple(attempt for attempt in attempts if not attempt.countable)
    sets = [runs[start : start + required] for start in range(max(1, len(runs) - required + 1))]
    scores = [score(runs) for runs in sets]
    order = sorted(range(len(sets)), key=lambda index: (math.inf if scores[index] is None else scores[index], index))
    windows = tuple(
        Window(tuple(attempt.number for attempt in sets[index]), scores[index], order.index(index))
        for index in range(len(sets))
    )
    # With an even number of windows the slower of the two in the middle: the choice must never flatter.
    chosen = order[len(order) // 2]
    return Choice(tuple(sets[chosen]), _words(windows, chosen, len(runs), required), windows, chosen, passed_over)


def _words(windows: Sequence[Window], chosen: int, runs: int, required: int) -> str:
    if len(windows) == 1:
        return f"the {runs} runs in launch order"
    text = ", ".join("invalid" if window.minutes is None else f"{window.minutes:.4f}" for window in windows)
    return f"the median of {len(windows)} windows of {required} consecutive runs (minutes {text}): window {chosen}"
