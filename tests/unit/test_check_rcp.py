"""Reference convergence points: every figure of every round is the official one to the last digit, so is the test."""

from __future__ import annotations

import functools
import logging
import math
import warnings
from itertools import pairwise

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.rcp_checker import rcp_checker

from podium.verdict.official import rcp, rulefiles

FILES = [
    (round, path.stem.removeprefix("rcps_"))
    for round in rulefiles.rounds()
    for path in sorted((rulefiles.PACKAGE / "rcp_checker" / f"training_{round}").glob("rcps_*.json"))
]
KNOWN = [(round, benchmark) for round, benchmark in FILES if benchmark not in rcp.UNKNOWN]


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


checker = functools.cache(rcp_checker.RCP_Checker)


def figures(record) -> tuple:
    return record["BS"], record["RCP Mean"], record["RCP Stdev"], record["Min Epochs"]


def ours(reference: rcp.Reference) -> tuple:
    return reference.batch_size, reference.mean, reference.deviation, reference.fastest()


@pytest.mark.parametrize(("round", "benchmark"), KNOWN)
def test_references_are_the_official_ones(round, benchmark):
    official = checker("training", round, benchmark, False, None)
    assert [ours(item) for item in rcp.references(round, benchmark)] == [
        figures(item) for item in official.rcp_data.values()
    ]
    pruned = [figures(item) for item in official.pruned_rcp_data.values()]
    assert [ours(item) for item in rcp.pruned(round, benchmark)] == pruned
    for low, high in pairwise(sorted({item[0] for item in pruned})):
        for size in {low + 1, (low + high) // 2, high - 1} - {low, high}:
            near = (
                official._find_top_min_rcp(size, "pruned_rcps"),
                official._find_bottom_max_rcp(size, "pruned_rcps"),
            )
            assert ours(rcp.at(round, benchmark, size)) == figures(official._create_interp_rcp(size, *near)[1])


@pytest.mark.parametrize(("round", "benchmark"), sorted(set(FILES) - set(KNOWN)))
def test_what_the_official_checker_does_not_know_is_not_known_here(round, benchmark):
    for ask in (rcp.pruned, lambda *which: rcp_checker.RCP_Checker("training", *which, False)):
        with pytest.raises(KeyError):
            ask(round, benchmark)


def test_run_counts_are_the_official_ones():
    for benchmark, runs in rcp_checker.submission_runs["training"].items():
        assert rcp.submitted_runs(benchmark) == runs
    assert not rcp.UNKNOWN & rcp_checker.submission_runs["training"].keys()


def official_answer(monkeypatch, round, benchmark, batch_size, epochs, bypass):
    """rcp_checker.check_directory on runs that are known, its references worked out once and nothing written."""
    known = (batch_size, None if epochs is None else list(epochs), benchmark)
    monkeypatch.setattr(rcp_checker, "get_submission_epochs", lambda *_: known)
    monkeypatch.setattr(rcp_checker, "RCP_Checker", checker)
    monkeypatch.setattr(rcp_checker.RCP_Checker.__wrapped__, "_reset_results_scaling", lambda *_: None)
    return rcp_checker.check_directory(
        "nowhere", "training", round, False, False, rcp_pass="pruned_rcps", rcp_bypass=bypass, set_scaling=False
    )


@pytest.mark.parametrize(("round", "benchmark"), KNOWN)
def test_the_test_is_the_official_one(monkeypatch, round, benchmark):
    """Means at, just above and just below every limit that there is, and batch sizes on all sides."""
    runs = rcp.submitted_runs(benchmark)
    every = rcp.pruned(round, benchmark)
    sizes = {item.batch_size for item in every} | {every[0].batch_size / 2, every[-1].batch_size * 2, -1}
    sizes |= {(low.batch_size + high.batch_size) / 2 for low, high in pairwise(every)}
    for size in sorted(sizes):
        reference = rcp.at(round, benchmark, size) or every[0]
        for factor in (0.5, 0.999999, 1.0, 1.000001, 2.0):
            for limit in (reference.fastest(), reference.mean):
                epochs = [limit * factor] * runs
                answer = rcp.judge(round, benchmark, size, epochs)
                theirs = official_answer(monkeypatch, round, benchmark, size, epochs, False)
                assert (answer.passed, answer.message, answer.scaling) == theirs
    for epochs in (None, [1.0] * runs):
        for size in (every[0].batch_size, every[-1].batch_size * 2):
            answer = rcp.judge(round, benchmark, size, epochs, bypass=True)
            theirs = official_answer(monkeypatch, round, benchmark, size, epochs, True)
            assert (answer.passed, answer.message, answer.scaling) == theirs


@pytest.mark.parametrize("epochs", [[], [35.0], [35.0, 36.0], [0.0] * 5])
def test_too_few_runs_and_none_give_what_numpy_gives(monkeypatch, epochs):
    answer = rcp.judge("3.0.0", "resnet", 3264, epochs)
    passed, message, scaling = official_answer(monkeypatch, "3.0.0", "resnet", 3264, epochs, False)
    assert (answer.passed, answer.message) == (passed, message)
    assert answer.scaling == scaling or math.isnan(answer.scaling) and math.isnan(scaling)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300))
def test_sums_and_deviations_are_numpys(values):
    assert rcp._sum(values) / len(values) == numpy.mean(values)
    assert rcp._deviation(values) == numpy.std(values)
