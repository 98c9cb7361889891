"""Bisection by noisy measurements: simulated searches with a culprit, without one, and with too much noise."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from podium.errors import BadEnvironment, BadInput
from podium.nightly import bisect, candidates, search
from podium.nightly.candidates import Candidates
from podium.nightly.search import Answer, Measure


def solve(rng, count, culprit, change, sigma, most=40, broken=()):
    """Search with simulated runs; returns the answer and all values."""
    values = {}
    while True:
        step = search.step(count, values, 0.005, most)
        if isinstance(step, Answer):
            return step, values
        value = (change if step.candidate >= culprit else 0.0) + sigma * rng.normal()
        values.setdefault(step.candidate, []).append(None if step.candidate in broken else value)


def test_culprits_are_found_and_seldom_a_wrong_one():
    rng = np.random.default_rng(0)
    found = [(culprit, solve(rng, 16, culprit, 0.03, 0.01)[0]) for culprit in rng.integers(1, 16, 100)]
    right = sum(answer.kind == search.FIRST_BAD and answer.first_bad == culprit for culprit, answer in found)
    wrong = sum(answer.kind == search.FIRST_BAD and answer.first_bad != culprit for culprit, answer in found)
    assert right >= 93 and wrong <= 5


def test_with_little_noise_few_runs_are_spent():
    answer, values = solve(np.random.default_rng(0), 64, 40, 0.1, 0.002)
    assert (answer.kind, answer.last_good, answer.first_bad) == (search.FIRST_BAD, 39, 40)
    assert sum(map(len, values.values())) <= 6 + 2 * 6
    assert answer.low < 10.5 < answer.high and answer.share == pytest.approx(1, abs=0.1)


def test_equal_ends_have_no_culprit():
    rng = np.random.default_rng(1)
    kinds = [solve(rng, 16, 99, 0.0, 0.002)[0].kind for _ in range(60)]
    assert kinds.count(search.SAME) >= 55 and kinds.count(search.FIRST_BAD) <= 2


def test_noise_that_forbids_an_answer_says_how_many_runs_would_allow_it():
    answer, _ = solve(np.random.default_rng(2), 8, 4, 0.02, 0.05, most=10)
    assert answer.kind == search.NOISE and answer.runs > 10
    among = Candidates("select", tuple("abcdefgh"))
    assert f"--most {answer.runs}" in bisect.told(answer, among, "step", [])[0]


def test_a_candidate_that_cannot_run_is_passed_over_and_a_gap_of_them_is_told():
    rng = np.random.default_rng(3)
    answer, _ = solve(rng, 9, 7, 0.1, 0.002, broken=(4,))
    assert (answer.kind, answer.first_bad) == (search.FIRST_BAD, 7)
    answer, _ = solve(rng, 9, 4, 0.1, 0.002, broken=(3, 4, 5))
    assert (answer.kind, answer.last_good, answer.first_bad) == (search.AMONG, 2, 6)
    assert "among d, e, f, g" in bisect.told(answer, Candidates("select", tuple("abcdefghi")), "step", [])[0]


def test_one_wild_run_does_not_turn_the_search():
    values = {0: [0.0, 0.002, -0.002, 0.001], 2: [0.1, 0.102, 0.099, 0.101], 1: [0.001, 0.5, 0.002, 0.0]}
    step = search.step(3, values, 0.005, 40)
    assert not isinstance(step, Answer) or step.first_bad == 2


def test_what_was_measured_is_the_whole_state():
    rng = np.random.default_rng(4)
    answer, values = solve(rng, 16, 9, 0.05, 0.01)
    assert search.step(16, values, 0.005, 40) == answer
    assert isinstance(search.step(16, {}, 0.005, 40), Measure)


def test_a_change_in_two_places_is_told():
    levels = {number: 0.03 * (number >= 2) + 0.03 * (number >= 6) for number in range(9)}
    values = {number: [level + 0.0003 * run for run in range(6)] for number, level in levels.items()}
    answer = search.step(9, values, 0.005, 40)
    assert (answer.kind, answer.first_bad) == (search.FIRST_BAD, 2)
    assert answer.share == pytest.approx(0.5, abs=0.1)
    lines = bisect.told(answer, Candidates("select", tuple("abcdefghi")), "step", [])
    assert "the rest of the change is elsewhere" in lines[1]


# Candidates


@pytest.mark.parametrize(("good", "bad"), [("c", "a"), ("x", None), ("b", "b")])
def test_ends_that_make_no_list_are_refused(good, bad):
    with pytest.raises(BadInput):
        candidates.between(["a", "b", "c"], good, bad)


def test_a_part_of_a_list_can_be_searched():
    assert candidates.between(["a", "b", "c", "d"], "b", "c") == ("b", "c")


def test_commits_that_do_not_touch_the_implementation_are_no_candidates(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    hashes = {}
    for name in ("one/a", "two/b", "one/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", name], check=True)
        hashes[name] = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
    found = candidates.of_commits(tmp_path / "one", "HEAD~2", "HEAD")
    assert found.names == (hashes["one/a"], hashes["one/c"])
    with pytest.raises(BadInput, match="no commit between"):
        candidates.of_commits(tmp_path / "one", "HEAD~2", "HEAD~1")
    with pytest.raises(BadInput, match="rev-parse"):
        candidates.of_commits(tmp_path / "one", "nothing", "HEAD")


def test_a_driver_that_cannot_be_selected_is_an_error_with_the_command():
    with pytest.raises(BadEnvironment, match="could not be selected") as caught:
        candidates.select(Candidates("select", ("575.1",), "echo no $1 >&2; exit 5"), 0)
    assert "status 5: no 575.1" in str(caught.value)
