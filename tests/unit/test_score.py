"""The olympic score, of runs and of results trees."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import synthetic
from podium import cli, files
from podium.verdict import tree
from podium.verdict.score import rows
from podium.verdict.score.olympic import olympic


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


REFERENCE = 457 / 13  # epochs: the mean of the reference at batch size 3264 in round 3.0.0


def scored(place, round: str = synthetic.ROUND):
    return rows.scores(tree.read(place), round)


def respell(place: Path, old: str, new: str) -> None:
    """Replace text in all logs of a tree."""
    for log in place.rglob("result_*.txt"):
        log.write_text(log.read_text().replace(old, new))


def test_a_tree_is_scored_by_its_logs(tmp_path):
    (row,) = scored(synthetic.tree(tmp_path))
    # The runs take 60.000 to 60.004 s; the first and the last are dropped.
    assert row.raw_minutes == row.official_minutes == pytest.approx(60.002 / 60)
    assert row.dropped == ("result_0.txt", "result_4.txt")
    assert (row.scaling, row.scaled_minutes, row.published_scaling) == (1.0, row.raw_minutes, None)
    assert row.norm == "RCP found: mean 36 of the reference's 35.1538 at batch size 3264"


def test_a_mean_below_the_reference_scales_the_score(tmp_path):
    place = synthetic.tree(tmp_path)
    respell(place, '"epoch_num": 36', '"epoch_num": 35')
    (row,) = scored(place)
    assert row.scaling == pytest.approx(REFERENCE / 35, abs=1e-9)
    assert row.scaled_minutes == row.raw_minutes * row.scaling
    assert row.published_minutes == row.raw_minutes


def test_a_failed_rcp_test_scales_nothing_and_says_so(tmp_path):
    place = synthetic.tree(tmp_path)
    respell(place, '"epoch_num": 36', '"epoch_num": 30')
    (row,) = scored(place)
    assert row.scaling == 1.0
    assert row.rcp_norm == pytest.approx(REFERENCE / 30, abs=1e-9)
    assert row.norm == "none: the RCP test fails (RCP found)"


def test_the_submissions_own_scaling_stands_beside_ours(tmp_path):
    place = synthetic.tree(tmp_path)
    path = place / "results" / "one" / "resnet" / "scaling.json"
    path.write_text('{"scaling_factor": 1.5}')
    (row,) = scored(place)
    assert (row.scaling, row.published_scaling) == (1.0, 1.5)
    assert row.published_minutes == row.raw_minutes * 1.5
    for broken in ("{half", "[]", "{}", '{"scaling_factor": "1.5"}'):
        path.write_text(broken)
        (row,) = scored(place)
        assert row.published_scaling is None
        assert "scaling.json" in row.why


def test_a_log_that_does_not_comply_counts_for_the_raw_score_only(tmp_path):
    place = synthetic.tree(tmp_path)
    log = place / "results" / "one" / "resnet" / "result_0.txt"
    synthetic.write_log(log, synthetic.log(0, quality=0.5))
    (row,) = scored(place)
    assert row.raw_minutes == pytest.approx(60.002 / 60)
    assert row.official_minutes == pytest.approx(60.003 / 60), "the fastest run is dropped as the slowest"
    assert "official: another score, 1 logs do not comply" in row.why


def test_the_open_division_has_no_scaling(tmp_path):
    (row,) = scored(synthetic.tree(tmp_path, division="open"))
    assert (row.scaling, row.norm) == (1.0, "none: division open")


def test_odd_results_have_a_row_that_says_why(tmp_path):
    place = synthetic.tree(tmp_path)
    results = place / "results" / "one"
    (results / "ssd").mkdir()
    synthetic.write_log(results / "rnnt" / "result_0.txt", ["no record at all"])
    synthetic.write_log(results / "resnet" / "result_9.txt", synthetic.log(9, global_batch_size=64))
    synthetic.write_log(results / "resnett" / "result_0.txt", synthetic.log(0))
    rows = {row.benchmark: row for row in scored(place)}
    assert rows["ssd"].raw_minutes is rows["rnnt"].raw_minutes is rows["resnett"].raw_minutes is None
    assert "0 runs are too few" in rows["ssd"].why
    assert rows["resnet"].norm == "none: the RCP test has no answer"
    assert "6 runs, 5 are required" in rows["resnet"].why
    assert rows["resnet"].raw_minutes is not None


def test_a_tree_without_descriptions_is_scored(tmp_path):
    place = synthetic.tree(tmp_path)
    (place / "systems" / "one.json").unlink()
    (row,) = scored(place)
    assert row.raw_minutes is not None


def test_scoring_twice_gives_the_same_and_leaves_the_tree_as_it_is(tmp_path, capsys):
    place = synthetic.tree(tmp_path)
    before = [(path, files.hash_file(place / path)) for path in files.walk(place)]
    outputs = []
    for _ in range(2):
        assert cli.main(["score", str(place), "--round", synthetic.ROUND, "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])["results"][0]["benchmark"] == "resnet"
    assert "unverified" in json.loads(outputs[0])["label"]
    assert [(path, files.hash_file(place / path)) for path in files.walk(place)] == before


def test_the_scores_of_a_tree_as_csv_and_as_a_table(tmp_path, capsys):
    place = synthetic.tree(tmp_path)
    cli.main(["score", str(place), "--round", synthetic.ROUND, "--csv"])
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert row["dropped"] == "result_0.txt;result_4.txt"
    cli.main(["score", str(place), "--round", synthetic.ROUND])
    assert "tests/one/resnet" in capsys.readouterr().out


def test_what_cannot_be_scored_is_named(tmp_path, capsys):
    assert cli.main(["score", str(tmp_path), "--round", synthetic.ROUND]) == 2
    assert cli.main(["score", str(synthetic.tree(tmp_path)), "--round", "9.9.9"]) == 2
    assert "unknown round 9.9.9" in capsys.readouterr().err
