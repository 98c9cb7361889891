"""A published result in Slurm style, run again by real Slurm: our job, their script, their steps through the broker."""

from __future__ import annotations

import json

import pytest

import published
from podium import cli

SLURM = {"launcher": "slurm", "slurm": {"exclusive": False, "poll_seconds": 1}}


@pytest.mark.parametrize(("seconds", "verdict"), [(600, "reproduced"), (720, "slower")])
def test_a_result_in_slurm_style_is_run_again_by_slurm(slurm_alone, tmp_path, capsys, seconds, verdict):
    status = cli.main(published.words(tmp_path, "slurm", seconds, **SLURM))
    answer = capsys.readouterr()
    assert status == int(verdict != "reproduced"), answer.err
    assert json.loads(answer.out)["verdict"] == verdict
    calls = (tmp_path / "work" / "reproduce" / "acme" / "one" / "resnet" / "0" / "calls.jsonl").read_text()
    assert '"srun", "--overlap"' in calls
    assert "it checks another site" in calls
