"""Which attempts count: the windows, their median, and the proof of it."""

from __future__ import annotations

import json
import math
import random

import pytest

from podium.package import nodes, system
from podium.runs import run as runs
from podium.runs import select
from podium.runs.ledger import Attempt
from podium.verdict import check
from podium.verdict.score.olympic import olympic
from support import SCRIPTED, first_plan


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
    choice = select.choose(attempts, 3, score_of)
    assert numbers(choice) == [0, 2, 5]
    assert choice.rule == "the 3 runs in launch order"
    assert choice.proof()["passed_over"] == [{"attempt": 1, "outcome": "failed"}]


def test_of_more_runs_the_median_window_counts():
    choice = select.choose([attempt(number, float(number)) for number in range(7)], 5, score_of)
    assert numbers(choice) == [1, 2, 3, 4, 5]
    assert "median of 3 windows" in choice.rule
    assert [(window.minutes, window.rank) for window in choice.windows] == [(2.0, 0), (3.0, 1), (4.0, 2)]


def test_the_example_of_the_rules_ten_runs_of_five_give_six_windows():
    minutes = [9.0, 3.0, 7.0, 1.0, 5.0, 8.0, 2.0, 6.0, 4.0, 0.5]
    choice = select.choose([attempt(number, value) for number, value in enumerate(minutes)], 5, score_of)
    assert [window.attempts for window in choice.windows] == [tuple(range(start, start + 5)) for start in range(6)]
    assert sorted(window.rank for window in choice.windows) == list(range(6))
    faster = [window for window in choice.windows if window.minutes < score_of(choice.counted)]
    assert len(faster) == 3, "of two windows in the middle the slower one counts"


def test_the_choice_is_the_median_of_all_windows_whatever_the_scores():
    draw = random.Random(1)
    for _ in range(200):
        required, more = draw.choice([3, 5, 10]), draw.randint(1, 9)
        attempts = [
            attempt(number, draw.uniform(1, 2), draw.choices(["converged", "not_converged"], [9, 1])[0])
            for number in range(required + more)
        ]
        choice = select.choose(attempts, required, score_of)
        every = [score_of(attempts[start : start + required]) for start in range(more + 1)]
        ordered = sorted(math.inf if value is None else value for value in every)
        mine = score_of(choice.counted)
        assert (math.inf if mine is None else mine) == ordered[len(ordered) // 2]


def test_an_invalid_window_is_infinitely_slow_and_may_be_the_median():
    attempts = [attempt(0, 1), attempt(1, 1), attempt(2, 1), attempt(3, 1), attempt(4, 1, "not_converged")]
    attempts += [attempt(5, 1, "not_converged"), attempt(6, 1)]
    choice = select.choose(attempts, 5, score_of)
    assert "invalid, invalid" in choice.rule
    assert score_of(choice.counted) is None


def test_equal_scores_are_placed_in_launch_order():
    choice = select.choose([attempt(number, 1.0) for number in range(7)], 5, score_of)
    assert [window.rank for window in choice.windows] == [0, 1, 2]
    assert choice.chosen == 1


@pytest.mark.parametrize("count", [0, 1, 4])
def test_fewer_runs_than_required_are_all_returned(count):
    choice = select.choose([attempt(number, 1.0) for number in range(count)], 5, score_of)
    assert numbers(choice) == list(range(count))
    assert choice.windows[0].minutes == score_of(choice.counted)


def test_the_proof_is_enough_to_make_the_choice_again():
    minutes = {number: 1.0 + number % 4 for number in range(12)}
    choice = select.choose([attempt(number, value) for number, value in minutes.items()], 5, score_of)
    proof = json.loads(json.dumps(choice.proof()))
    scores = [
        olympic([minutes[number] for number in window["attempts"]], "resnet").minutes for window in proof["windows"]
    ]
    assert scores == [window["minutes"] for window in proof["windows"]]
    order = sorted(range(len(scores)), key=lambda index: (scores[index], index))
    assert proof["chosen"] == order[len(order) // 2]
    assert proof["windows"][proof["chosen"]]["attempts"] == numbers(choice)


def test_the_verdict_holds_the_proof_and_waits_for_all_runs_of_the_group(prepared, built):
    result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good", "attempts": 6}
    config = built(prepared("good", results=[result]))
    wanted = first_plan(config)
    system.write(config, wanted.system, [nodes.collect()])
    for number in range(5):
        runs.run(config, wanted, number)
    early = check.check_result(config, wanted)
    assert early["verdict"] == "not compliant"
    assert "6 runs are to be made as a group, 5 have ended" in early["findings"][0]
    runs.run(config, wanted, 5)
    verdict = check.check_result(config, wanted)
    assert verdict["verdict"] == "compliant"
    assert [window["attempts"] for window in verdict["proof"]["windows"]] == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert verdict["counted"] == verdict["proof"]["windows"][verdict["proof"]["chosen"]]["attempts"]
