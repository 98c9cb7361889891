"""Detection: shifts, drifts, marks, outliers, nodes; `make bench-nightly` measures the bars over many histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nights import Noise, simulate
from podium.nightly import detect, nodes


def levels(found, marks=(), series=50):
    return detect.follow(found.night, np.log(found.value), marks, series).levels


def test_a_shift_is_found_within_three_nights_and_dated_to_its_first(rng):
    found = [levels(simulate(rng, 140, shift=(120, 0.03)))[1:] for _ in range(20)]
    assert all(one and one[0].found <= 122 for one in found)
    assert sum(one[0].start == 120 for one in found) >= 15


def test_a_drift_is_found_and_told_from_a_step(rng):
    course = follow(simulate(rng, 150, drift=(120, 0.005)))
    assert 120 < course.levels[1].found <= 148
    slope = detect.ramp(course.robust, course.weight, course.night.astype(float), float(course.sigma[119]))
    assert 7 * slope == pytest.approx(0.005, rel=0.3)
    step = follow(simulate(rng, 150, shift=(130, 0.03)))
    assert detect.ramp(step.robust, step.weight, step.night.astype(float), float(step.sigma[119])) is None


def test_quiet_histories_have_one_level(rng):
    found = [levels(simulate(rng, 200, noise=Noise(missing=0.1, lost=0.1))) for _ in range(20)]
    assert sum(len(one) > 1 for one in found) <= 1, "one in 200 nights of 50 series is what is allowed"


def test_one_wild_night_is_no_level_and_a_wild_run_not_even_a_wild_night(rng):
    found = simulate(rng, 160)
    wild_night = np.where(found.night == 140, found.value * 1.3, found.value)
    assert len(levels(type(found)(found.night, found.node, wild_night))) == 1
    wild_run = found.value.copy()
    wild_run[np.flatnonzero(found.night == 140)[0]] *= 3
    course = detect.follow(found.night, np.log(wild_run), (), 50)
    assert abs(course.centre[140] - course.centre[139]) < 0.02


def test_with_many_outliers_in_the_past_more_nights_in_a_row_are_asked_for(rng):
    found = simulate(rng, 200)
    value = found.value * np.where((found.night % 20 == 3) | (found.night >= 198), 1.1, 1)
    assert len(levels(type(found)(found.night, found.node, value))) == 1
    value = found.value * np.where((found.night % 20 == 3) | (found.night >= 194), 1.1, 1)
    assert len(levels(type(found)(found.night, found.node, value))) == 2


def test_a_mark_begins_a_level_without_an_alarm(rng):
    found = simulate(rng, 160, shift=(120, 0.05))
    course = detect.follow(found.night, np.log(found.value), (120,), 50)
    assert [(level.start, level.marked) for level in course.levels] == [(0, True), (120, True)]


def test_nothing_is_said_before_there_are_nights_to_learn_from():
    night = np.repeat(np.arange(detect.LEAST + 1), 3)
    assert len(detect.follow(night, np.where(night < 5, 0.0, 1.0)).levels) == 1
    empty = detect.follow(np.zeros(0, int), np.zeros(0))
    assert (len(empty.night), empty.levels) == (0, ())


def test_a_measure_that_never_varies_is_judged_too():
    night = np.arange(40)
    assert len(detect.follow(night, np.zeros(40)).levels) == 1
    assert detect.follow(night, np.where(night < 30, 0.0, 0.1)).levels[1].start == 30


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(20, 179))
def test_a_verdict_of_the_past_does_not_depend_on_what_came_later(seed, cut):
    rng = np.random.default_rng(seed)
    found = simulate(rng, 180, runs=3, noise=Noise(wild_nights=0.02, missing=0.05), shift=(90, 0.05), nodes=4)
    value = np.log(found.value)
    known = found.night <= cut
    runs = nodes.compare(found.night, found.node, value)
    early = nodes.compare(found.night[known], found.node[known], value[known])
    assert np.allclose(nodes.effects(runs)[known], nodes.effects(early), atol=1e-12)
    whole = detect.follow(found.night, value, (), 50).levels
    part = detect.follow(found.night[known], value[known], (), 50)
    assert part.levels == tuple(level for level in whole if level.found < len(part.night))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_the_centre_of_a_night_lies_among_its_runs_and_one_run_cannot_move_it_far(values):
    _, centre, _ = detect.centres(np.zeros(len(values), int), np.array(values))
    assert min(values) - 1e-9 <= centre[0] <= max(values) + 1e-9
    if len(values) >= 3:
        _, moved, _ = detect.centres(np.zeros(len(values), int), np.array([*values[:-1], 1e6]))
        assert moved[0] <= max(values[:-1]) + 1e-9


# Nodes


def test_a_slow_node_is_named_with_its_size_and_moves_no_level(rng):
    found = simulate(rng, 200, slow=(5, 150, 0.04))
    runs = nodes.compare(found.night, found.node, np.log(found.value))
    (slow,) = nodes.slow([runs], 16, 0.01)
    assert slow.node == 5
    assert slow.effect == pytest.approx(0.04, abs=0.012), "its own difference from the others is part of it"
    assert slow.low < slow.effect < slow.high
    assert abs(slow.since - 150) <= 12
    course = detect.follow(found.night, np.log(found.value) - nodes.effects(runs), (), 50)
    assert len(course.levels) == 1


def test_what_all_nodes_share_is_no_effect_of_any(rng):
    found = simulate(rng, 200, shift=(150, 0.05))
    runs = nodes.compare(found.night, found.node, np.log(found.value))
    assert nodes.slow([runs], 16, 0.01) == []
    assert np.abs(nodes.effects(runs)).max() < 0.015


@pytest.mark.parametrize("count", [1, 2])
def test_where_nodes_and_nights_cannot_be_told_apart_nothing_is_taken_off(rng, count):
    found = simulate(rng, 60, runs=count, nodes=count)
    runs = nodes.compare(found.night, found.node, np.log(found.value))
    assert not nodes.effects(runs).any()
    assert nodes.slow([runs], count, 0.01) == []
    several = nodes.compare(found.night, np.full(len(found.night), -1), np.log(found.value))
    assert not nodes.effects(several).any()


def test_no_runs_are_no_nodes():
    nothing = nodes.compare(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    assert nodes.slow([nothing], 0, 0.01) == []
    assert nodes.slow([], 0, 0.01) == []


def follow(found):
    return detect.follow(found.night, np.log(found.value), (), 50)


@pytest.fixture
def rng():
    return np.random.default_rng(42)
