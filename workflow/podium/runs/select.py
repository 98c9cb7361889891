"""Which attempts count: decided by the published rule alone, and the choice is written down.

Training rules, section on run selection: N runs in launch order; where M > N were launched as a group, the window of N
consecutive runs with the median score, where a window that has no valid score counts as infinitely slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from podium.runs.ledger import Attempt


@dataclass(frozen=True)
class Choice:
    """The counted attempts, in launch order, and the words of the rule that chose them."""

    counted: tuple[Attempt, ...]
    rule: str


def choose(attempts: Sequence[Attempt], required: int, score: Callable[[Sequence[Attempt]], float | None]) -> Choice:
    """Choose `required` of the countable attempts (given in launch order); fewer are all returned.

    `score` gives the minutes of a window, None where it is invalid.
    """
    countable = [attempt for attempt in attempts if attempt.countable]
    if len(countable) <= required:
        return Choice(tuple(countable), f"the {len(countable)} runs in launch order")
    windows = [countable[start : start + required] for start in range(len(countable) - required + 1)]
    scores = [math.inf if (value := score(window)) is None else value for window in windows]
    ranked = sorted(range(len(windows)), key=lambda index: (scores[index], index))
    # With an even number of windows the slower of the two in the middle: the choice must never flatter.
    chosen = ranked[len(ranked) // 2]
    text = ", ".join("invalid" if math.isinf(value) else f"{value:.4f}" for value in scores)
    rule = f"the median of {len(windows)} windows of {required} consecutive runs (minutes {text}): window {chosen}"
    return Choice(tuple(windows[chosen]), rule)
