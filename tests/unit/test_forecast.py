"""Forecasts: what follows from the first runs of a result, and how often the forecasts over published results held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synthetic
from podium import cli
from podium.runs import run as runs
from podium.verdict import tree
from podium.verdict.forecast import calibration, forecast, model
from podium.verdict.forecast.calibration import Trial
from podium.verdict.forecast.model import Interval, Seen
from podium.verdict.official import rcp
from support import SCRIPTED, SHARED, first_plan

FIXTURES = SHARED / "data" / "published" / "fixtures"
REFERENCE = rcp.at("3.0.0", "rnnt", 1536)  # mean 48.9 epochs
FASTEST = REFERENCE.fastest()


def told(points, failed: int = 0, required: int = 10, rate: float = 0.25):
    """The forecast of an rnnt result whose runs took these epochs, at `rate` minutes each."""
    seen = Seen(tuple(rate * point for point in points), tuple(map(float, points)), failed, step=1.0)
    return model.forecast(seen, required, 1, REFERENCE, FASTEST)


def test_a_finished_result_is_what_it_is():
    points = [48, 49, 50, 51, 52, 47, 48, 49, 50, 51]
    found = told(points)
    mean = sum(sorted(points)[1:-1]) / 8
    assert (found.converges, found.accepted) == (1.0, 1.0)
    assert found.score.low == found.score.high == pytest.approx(0.25 * mean)
    assert found.scaled.middle == pytest.approx(0.25 * max(mean, REFERENCE.mean))
    assert told([40] * 10).accepted == 0.0


def test_the_more_runs_the_narrower_the_interval():
    widths = [told([48, 50, 49, 51, 47, 49, 50, 48, 49][:count]).score for count in (1, 3, 5, 9)]
    assert [one.high / one.low for one in widths] == sorted((one.high / one.low for one in widths), reverse=True)
    for one in widths:
        assert one.low < one.middle < one.high


def test_slower_runs_are_likelier_to_be_accepted():
    chances = [told([mean] * 3).accepted for mean in (42, 46, 49, 55)]
    assert chances == sorted(chances)
    assert chances[0] < 0.2 and chances[-1] > 0.95


def test_runs_that_missed_the_target_leave_fewer_that_may():
    good, one, two = told([49] * 3), told([49] * 3, failed=1), told([49] * 3, failed=2)
    assert good.converges > 0.95 > one.converges > 0.5
    assert two.converges == 0.0 and two.score is None
    seen = [Seen((1.0,) * 3, (49.0,) * 3, failed) for failed in (0, 1, 2)]
    assert [model.may_fail(item, 10, 1) for item in seen] == [1, 0, 0]
    assert model.may_fail(Seen((1.0,) * 39, (1.0,) * 39, 0), 40, 4) == 1, "only one is left"


def test_before_any_run_has_converged_no_score_is_given():
    found = told([], failed=1)
    assert found.score is found.scaled is found.accepted is None
    assert 0 < found.converges < 1


def test_the_same_runs_have_the_same_forecast():
    assert told([48, 50]) == told([48, 50])


def test_an_interval_is_stretched_around_its_middle():
    wide = Interval(8.0, 10.0, 14.0).stretched(2.0)
    assert (wide.low, wide.middle, wide.high) == pytest.approx((6.4, 10.0, 19.6))


def trial(name: int, value: float, known: int = 1) -> Trial:
    return Trial(str(name), "score", known, Interval(9.0, 10.0, 10 / 0.9), value, None, None)


def test_history_stretches_so_that_nine_of_ten_hold():
    # Twenty results, of which the forecast interval holds half.
    past = [trial(number, 10 * (1 / 0.9) ** (number / 10)) for number in range(1, 21)]
    rows = calibration.table(past)
    assert rows[0].held == 0.5
    assert 0.85 <= rows[0].held_stretched <= 0.95
    assert rows[0].factor == pytest.approx(1.9)


def test_too_few_results_teach_nothing():
    assert calibration.factor([trial(number, 30.0) for number in range(8)]) == 1.0
    assert calibration.table([]) == []


def test_a_result_never_mends_its_own_interval():
    """One far result among ten: it alone is outside, and it would be inside if its own distance counted."""
    past = [trial(number, 10.0 + 0.01 * number) for number in range(9)] + [trial(99, 40.0)]
    assert calibration.table(past)[0].held_stretched == 0.9
    assert past[-1].distance == pytest.approx(calibration.factor(past))


def result(tmp_path: Path, count: int, **changes) -> Path:
    place = synthetic.tree(tmp_path)
    folder = place / "results" / "one" / "resnet"
    for number in range(5):
        (folder / f"result_{number}.txt").unlink()
    for number in range(count):
        synthetic.write_log(folder / f"result_{number}.txt", synthetic.log(number, **changes))
    return place


def asked(place: Path, *words: str, capsys) -> dict:
    assert cli.main(["forecast", str(place), "--round", synthetic.ROUND, "--json", *words]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["forecasts"]
    return answer


def test_a_tree_with_two_of_five_runs(tmp_path, capsys):
    answer = asked(result(tmp_path, 2), capsys=capsys)
    assert (answer["runs"], answer["required"], answer["may_still_fail"]) == (2, 5, 1)
    assert answer["rcp"]["test"] == "RCP found"
    assert answer["rcp"]["batch_sizes"]["exact"] == [1632, 3264, 32768, 49152, 67840]
    assert answer["score_minutes"]["low"] < 1.0 < answer["score_minutes"]["high"]
    assert answer["probability"]["rcp_passes"] > 0.9
    assert cli.main(["forecast", str(tmp_path / "tests"), "--round", synthetic.ROUND]) == 0
    assert "2 of 5 runs" in capsys.readouterr().out


def test_of_a_finished_tree_the_first_runs_can_be_asked_about(tmp_path, capsys):
    place = synthetic.tree(tmp_path)
    whole, early = asked(place, capsys=capsys), asked(place, "--first", "1", capsys=capsys)
    assert whole["score_minutes"]["low"] == whole["score_minutes"]["high"]
    assert early["runs"] == 1
    assert early["score_minutes"]["low"] < whole["score_minutes"]["middle"] < early["score_minutes"]["high"]
    assert cli.main(["forecast", str(place), "--round", synthetic.ROUND, "--first", "0"]) == 2


def test_runs_are_taken_in_the_order_of_their_numbers(tmp_path):
    place = result(tmp_path, 0)
    folder = place / "results" / "one" / "resnet"
    for number in (10, 2, 1):
        lines = [line.replace('"epoch_num": 36', f'"epoch_num": {30 + number}') for line in synthetic.log(number)]
        synthetic.write_log(folder / f"result_{number}.txt", lines)
    (case,) = forecast.of_tree(tree.read(place), synthetic.ROUND)
    assert [point for _, point in case.runs] == [31, 32, 40]


def test_mixed_batch_sizes_are_named_and_the_minutes_still_forecast(tmp_path, capsys):
    place = result(tmp_path, 2)
    odd = place / "results" / "one" / "resnet" / "result_7.txt"
    synthetic.write_log(odd, synthetic.log(7, global_batch_size=64))
    answer = asked(place, capsys=capsys)
    assert answer["probability"]["rcp_passes"] is None
    assert answer["score_minutes"] is not None
    assert "several batch sizes (3264, 64)" in answer["notes"][0]


@pytest.mark.parametrize(
    "changes, test",
    [
        ({"global_batch_size": 100_000}, "Missing RCP, please submit RCP with BS = 100000"),
        ({"global_batch_size": 4096}, "RCP Interpolation"),
        ({"global_batch_size": 8}, "RCP not found but slower convergence on smaller batch size"),
        ({"global_batch_size": "many"}, "none: no batch size is known yet"),
    ],
)
def test_a_batch_size_is_told_what_it_will_be_compared_with(tmp_path, capsys, changes, test):
    assert asked(result(tmp_path, 2, **changes), capsys=capsys)["rcp"]["test"] == test


def test_the_open_division_has_no_rcp(tmp_path, capsys):
    answer = asked(synthetic.tree(tmp_path, division="open"), "--first", "2", capsys=capsys)
    assert answer["rcp"]["test"] == "none: open division"
    assert answer["scaled_minutes"] is None


def test_odd_logs_are_runs_that_missed_or_are_left_out_with_a_note(tmp_path, capsys):
    place = result(tmp_path, 2)
    folder = place / "results" / "one" / "resnet"
    synthetic.write_log(folder / "result_2.txt", ["no record"])
    synthetic.write_log(folder / "result_3.txt", [line for line in synthetic.log(3) if '"run_start"' not in line])
    answer = asked(place, capsys=capsys)
    assert (answer["runs"], answer["failed"]) == (3, 1)
    assert answer["notes"] == ["result_3.txt says success, but not after how many minutes or epochs: left out"]


def test_no_run_yet_and_no_such_benchmark_have_an_answer(tmp_path, capsys):
    answer = asked(result(tmp_path, 0), capsys=capsys)
    assert answer["score_minutes"] is None
    assert answer["probability"]["converges"] > 0.9
    place = synthetic.tree(tmp_path / "other", benchmark="resnet50")
    folder = place / "results" / "one" / "resnet50"
    assert cli.main(["forecast", str(folder), "--round", synthetic.ROUND]) == 2
    assert "benchmark resnet50 is not in round" in capsys.readouterr().err


def test_a_benchmark_without_rcps_still_has_a_score_interval(tmp_path, capsys):
    place = synthetic.tree(tmp_path, benchmark="dlrm")
    assert cli.main(["forecast", str(place), "--round", "1.0.0", "--first", "2", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["forecasts"]
    assert answer["rcp"]["test"] == "none: the checker has no RCPs for dlrm in 1.0.0"
    assert answer["score_minutes"] is not None


def test_the_work_root_is_forecast_while_runs_land(prepared, built, capsys):
    result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good", "attempts": 6}
    config = built(prepared("good", results=[result]))
    wanted = first_plan(config)
    for number in range(2):
        runs.run(config, wanted, number)
    (case,) = forecast.of_config(config)
    assert (len(case.runs), case.required, case.how) == (2, 5, "none: open division")
    capsys.readouterr()
    assert cli.main(["forecast", "--config", str(config.path)]) == 0
    assert "host/resnet: 2 of 5 runs" in capsys.readouterr().out


def test_a_tree_without_finished_results_cannot_calibrate(tmp_path, capsys):
    place = result(tmp_path, 2)
    assert cli.main(["forecast", "--calibrate", str(place), "--round", synthetic.ROUND]) == 2
    assert "nothing to learn from" in capsys.readouterr().err


@pytest.fixture(scope="module")
def past() -> list[Trial]:
    found: list[Trial] = []
    for version in ("v1.0", "v3.0", "v4.0", "v5.1"):
        found += forecast.history(forecast.of_tree(tree.read(FIXTURES / version), f"{version[1:]}.0"))
    return found


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no shared/data/published beside the checkout")
def test_intervals_over_published_results_hold_nine_times_of_ten(past):
    """As they are, over all; and with the factor learnt from all other results, for every number of known runs."""
    rows = calibration.table(past)
    for what in ("score", "scaled"):
        mine = [row for row in rows if row.what == what]
        (pooled,) = (row for row in mine if row.known is None)
        assert pooled.results >= 27
        assert 0.85 <= pooled.held <= 0.95
        assert 0.85 <= pooled.held_stretched <= 0.95
        for row in mine:
            if row.known and row.results > calibration.ENOUGH:
                assert 0.85 <= row.held_stretched <= 0.97, row
                assert row.width < 0.25


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no shared/data/published beside the checkout")
def test_the_probability_of_the_rcp_test_sorts_results_that_passed_from_those_that_did_not(past):
    late = [trial for trial in past if trial.what == "score" and trial.known >= 3 and trial.accepted is not None]
    passed = [trial.accepted for trial in late if trial.passed]
    failed = [trial.accepted for trial in late if not trial.passed]
    assert sum(passed) / len(passed) > 0.9
    assert sum(failed) / len(failed) < 0.3


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no shared/data/published beside the checkout")
def test_the_table_of_the_check_is_printed(capsys):
    assert cli.main(["forecast", "--calibrate", str(FIXTURES / "v5.1")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "held with" in lines[0]
    assert [line.split()[:2] for line in lines[2:5]] == [["score", "1"], ["score", "2"], ["score", "3"]]
    assert any(line.startswith("score") and " all " in line for line in lines)
