"""The olympic score, of runs and of results trees."""

from __future__ import annotations

import pytest

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
