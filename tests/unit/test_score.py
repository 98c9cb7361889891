"""The olympic score and the choice of runs."""

from __future__ import annotations

import pytest

from podium.runs import select
from podium.runs.ledger import Attempt
from podium.verdict.score import olympic


def test_the_fastest_and_the_slowest_are_dropped():
    score = olympic([5.0, 1.0, 3.0, 2.0, 4.0], "resnet")
    assert score.minutes == 3.0
    assert set(score.dropped) == {0, 1}


def test_unet3d_drops_four_at_either_end():
    times = [float(index) for index in range(40)]
    assert olympic(times, "unet3d").minutes == pytest.approx(sum(range(4, 36)) / 32)


def test_a_run_that_did_not_converge_is_the_slowest():
    assert olympic([1.0, 2.0, 3.0, 4.0, None], "resnet").minutes == 3.0
    assert olympic([1.0, 2.0, 3.0, None, None], "resnet").minutes is None
    times = [1.0] * 36 + [None] * 4
    assert olympic(times, "unet3d").minutes == 1.0
    assert olympic(times[:-1] + [None, None], "unet3d").minutes is None


def test_too_few_runs_have_no_score():
    assert olympic([1.0, 2.0], "resnet").minutes is None
    assert olympic([], "resnet").minutes is None


def attempt(number: int, minutes: float, outcome: str = "converged") -> Attempt:
    return Attempt(number, number, number, "f", {"outcome": outcome, "minutes": minutes})


def score_of(window):
    return olympic(
        [item.record["minutes"] if item.outcome == "converged" else None for item in window], "resnet"
    ).minutes


def numbers(choice):
    return [item.number for item in choice.counted]


def test_n_runs_are_taken_in_launch_order_and_failed_attempts_are_passed_over():
    attempts = [attempt(0, 1), attempt(1, 0, "failed"), attempt(2, 1), attempt(5, 1)]
    assert numbers(select.choose(attempts, 3, score_of)) == [0, 2, 5]


def test_of_more_runs_the_median_window_counts():
    fast_to_slow = [attempt(number, float(number)) for number in range(7)]
    choice = select.choose(fast_to_slow, 5, score_of)
    assert numbers(choice) == [1, 2, 3, 4, 5]
    assert "median of 3 windows" in choice.rule


def test_an_invalid_window_is_infinitely_slow_and_may_be_the_median():
    attempts = [attempt(0, 1), attempt(1, 1), attempt(2, 1), attempt(3, 1), attempt(4, 1, "not_converged")]
    attempts += [attempt(5, 1, "not_converged"), attempt(6, 1)]
    choice = select.choose(attempts, 5, score_of)
    assert "invalid, invalid" in choice.rule
    assert score_of(choice.counted) is None
