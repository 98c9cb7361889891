"""Checks while runs land: each attempt's verdict at once, and no further run once a result is lost."""

from __future__ import annotations

import pytest

from podium import files, plan
from podium.errors import BadInput
from podium.runs import run as runs
from support import SCRIPTED, first_plan


def test_every_attempt_gets_its_verdict_when_it_ends(prepared, built, capsys):
    config = built(prepared("good"))
    wanted = first_plan(config)
    runs.run(config, wanted, 0)
    verdict = files.read_json(plan.verdict_file(config, wanted).with_suffix("") / "0.json")
    assert verdict["attempt"] == 0
    assert verdict["compliant"] is True
    assert "check host/resnet attempt 0: complies" in capsys.readouterr().err


@pytest.fixture
def lost_after_two(prepared, built):
    """A config whose first two of five runs missed their target, where one may."""

    def make(**changes):
        result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "never"}
        config = built(prepared("never", results=[result | changes]))
        wanted = first_plan(config)
        for number in (0, 1):
            runs.run(config, wanted, number)
        return config, wanted

    return make


def test_a_lost_result_goes_on_by_default(lost_after_two):
    config, wanted = lost_after_two()
    assert runs.run(config, wanted, 2).outcome == "not_converged"


def test_a_lost_result_stops_where_the_config_says_so(lost_after_two):
    config, wanted = lost_after_two(stop_when_lost=True)
    with pytest.raises(BadInput, match="the result is lost") as error:
        runs.run(config, wanted, 2)
    assert "attempts [0, 1] failed, 1 may among 5 runs" in error.value.found
    assert runs.run(config, wanted, 1).number == 1, "a recorded run stays what it is"


def test_with_more_attempts_only_a_lost_median_stops(lost_after_two):
    """Seven attempts have three windows of five: after two failures one is invalid, after three the median is."""
    config, wanted = lost_after_two(stop_when_lost=True, attempts=7)
    assert runs.run(config, wanted, 2).outcome == "not_converged"
    with pytest.raises(BadInput, match="the result is lost"):
        runs.run(config, wanted, 3)
