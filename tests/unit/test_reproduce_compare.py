"""Verdicts: statistics against known cases, planted slow-downs, changed seeds, and what makes a comparison void."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import published
from podium.reproduce import compare, differences, page, statistics, text
from podium.verdict.reading import digest
from synthetic import write_log

MINE, THEIRS = (36, 35, 37), (35, 36, 37, 36, 35)


def side(folder: Path, seconds: float, epochs=MINE, noise: float = 0.002, seed: int = 1, extra: str = "", **facts):
    """Runs whose 36 epochs take `seconds`; `noise` is relative."""
    draw = random.Random(seed)
    batch = facts.pop("batch_size", 3264)
    status = facts.pop("status", "success")
    logs = {}
    for number, count in enumerate(epochs):
        time = seconds * count / 36 * (1 + draw.gauss(0, noise))
        lines = [*published.log(number + seed, time, count, batch, status), extra]
        path = write_log(folder / f"result_{number}.txt", lines)
        logs[path] = digest.of_log(path, published.ROUND)
    return compare.Side(folder.name, logs, facts)


def verdict(tmp_path, mine: compare.Side, margin: float = 0.03, **theirs) -> compare.Comparison:
    other = side(tmp_path / "theirs", 600, THEIRS, seed=9, **theirs)
    return compare.compare(other, mine, "resnet", published.ROUND, margin, 0.95)


@pytest.mark.parametrize(("slower", "word"), [(0.0, "reproduced"), (0.05, "slower"), (0.2, "slower"), (-0.1, "faster")])
def test_planted_changes_of_speed_are_found_with_three_runs(tmp_path, slower, word):
    found = verdict(tmp_path, side(tmp_path / "mine", 600 * (1 + slower)))
    assert found.verdict == word
    assert found.percent == pytest.approx(100 * slower, abs=0.5)


@pytest.mark.parametrize("seed", range(8))
def test_other_seeds_that_converge_elsewhere_are_reproduced(tmp_path, seed):
    epochs = random.Random(seed).choices(THEIRS, k=3)
    assert verdict(tmp_path, side(tmp_path / "mine", 600, epochs, seed=seed + 20)).verdict == "reproduced"


def test_more_epochs_to_the_target_are_slower_although_each_is_as_fast(tmp_path):
    found = verdict(tmp_path, side(tmp_path / "mine", 600, (46, 47, 46, 47, 46)))
    assert (found.verdict, found.speed.answer) == ("slower", "same")
    assert "more epochs" in found.reasons[0]


def test_noise_that_hides_the_answer_is_not_comparable_and_says_how_many_runs_would_tell(tmp_path):
    found = verdict(tmp_path, side(tmp_path / "mine", 606, (36, 35, 36), noise=0.05), margin=0.02)
    assert found.verdict == "not comparable"
    assert "runs of mine would tell" in found.reasons[-1]


VOID = {
    "global batch size": {"batch_size": 1632},
    "did not reach the target": {"status": "aborted"},
    "faster than the reference can": {"epochs": (20, 21, 20, 21, 20)},
}


@pytest.mark.parametrize(("why", "change"), VOID.items())
def test_another_training_is_not_comparable(tmp_path, why, change):
    found = verdict(tmp_path, side(tmp_path / "mine", 600, **change))
    assert found.verdict == "not comparable"
    assert why in " ".join(found.reasons)


def test_the_reference_points_say_nothing_where_theirs_do_not_hold_them_either(tmp_path):
    other = side(tmp_path / "theirs", 600, (8, 8, 9, 8, 8), seed=9)
    found = compare.compare(other, side(tmp_path / "mine", 600, (8, 9, 8)), "resnet", published.ROUND, 0.03, 0.95)
    assert (found.verdict, found.rcp["answer"]) == ("reproduced", "fail")


def test_one_run_of_mine_is_judged_with_the_spread_of_theirs(tmp_path):
    assert verdict(tmp_path, side(tmp_path / "mine", 600, (36,))).verdict == "reproduced"
    assert verdict(tmp_path, side(tmp_path / "slow", 720, (36,))).verdict == "slower"


def test_differences_are_ranked_and_fallbacks_named_with_their_place(tmp_path):
    extra = "n1:12:15 [0] NCCL INFO Using network Socket"
    mine = side(tmp_path / "mine", 720, extra=extra, accelerator_model_name="A30", operating_system="Debian",
                host_networking="Ethernet")  # fmt: skip
    found = verdict(tmp_path, mine, accelerator_model_name="NVIDIA A100", operating_system="Ubuntu",
                    host_networking="InfiniBand")  # fmt: skip
    assert [item.field for item in found.differences] == [
        "accelerator_model_name",
        "host_networking",
        "operating_system",
    ]
    assert found.fallbacks[0]["what"].startswith("NCCL talks over sockets")
    assert found.fallbacks[0]["where"].startswith("result_0.txt:")
    assert found.fallbacks[0]["theirs too"] == "false"
    written = page.page(found)
    assert "slower by 20" in written
    assert "sockets" in written
    assert "slower by 20" in text.compared(found)


@pytest.mark.parametrize(
    "line",
    [
        "NCCL INFO Channel 00 : 0[0] -> 8[0] [send] via NET/Socket/0",
        "SW Power Cap                      : Active",
        "NCCL INFO NCCL_P2P_DISABLE set by environment to 1",
        "falling back to the slow path",
    ],
)
def test_fallbacks_are_known_by_what_logs_say(tmp_path, line):
    path = write_log(tmp_path / "a.txt", ["something", line])
    (where,) = differences.fallbacks([path]).values()
    assert where.startswith("a.txt:2: ")


def test_good_logs_have_no_fallbacks(tmp_path):
    lines = ["NCCL INFO Using network IBext_v8", "via NET/IB/0/GDRDMA", "SW Power Cap : Not Active"]
    assert differences.fallbacks([write_log(tmp_path / "a.txt", lines)]) == {}


def test_the_interval_of_a_ratio_is_that_of_welch():
    theirs, mine = [10.0, 10.2, 9.9, 10.1], [10.4, 10.6, 10.5]
    found = statistics.ratio(theirs, mine, 0.05, 0.95)
    answer = stats.ttest_ind(np.log(mine), np.log(theirs), equal_var=False)
    low, high = answer.confidence_interval(0.90)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((low, high), rel=1e-6)


POSITIVE = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=8)


@given(POSITIVE, POSITIVE, st.floats(0.01, 0.3))
def test_the_answer_follows_the_interval(theirs, mine, margin):
    found = statistics.ratio(theirs, mine, margin, 0.95)
    assert found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    inside = 1 / (1 + margin) < found.low and found.high < 1 + margin
    assert (found.answer == "same") == inside
    assert statistics.ratio(theirs, [value * 3 for value in theirs], margin, 0.95).value == pytest.approx(3)


def test_equal_times_without_any_spread_have_an_answer():
    assert statistics.ratio([2.0, 2.0], [2.0, 2.0], 0.05, 0.95).answer == "same"
    assert statistics.ratio([2.0, 2.0], [3.0, 3.0], 0.05, 0.95).answer == "more"
    assert statistics.ratio([2.0], [2.0, 2.0], 0.05, 0.95) is None


def test_rates_of_false_answers_are_what_the_confidence_promises():
    draw = np.random.default_rng(3)
    wrong = same = 0
    for _ in range(400):
        theirs = draw.lognormal(0, 0.01, 5)
        edge = draw.lognormal(math.log(1.03), 0.01, 3)
        wrong += statistics.ratio(theirs, edge, 0.03, 0.95).answer == "same"
        same += statistics.ratio(theirs, draw.lognormal(0, 0.01, 3), 0.05, 0.95).answer == "same"
    assert wrong / 400 < 0.08  # at most 5 % but for chance
    assert same / 400 > 0.85
