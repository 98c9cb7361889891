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


@pytest.mark.parametrize("style", ["docker", "plain"])
def test_a_result_is_built_and_run_again_by_docker(docker, base, tmp_path, capsys, monkeypatch, style):
    monkeypatch.setenv("DOCKER_HOST", docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip())
    words = published.words(tmp_path, style, 720, engine="docker")
    for script in (tmp_path / "round").rglob("train.sh"):
        text = f"FROM {base}\nWORKDIR /workspace/image_classification\nCOPY . .\n"
        (script.parent / "Dockerfile").write_text(text)
    try:
        status = cli.main(words)
    finally:
        docker("image", "rm", "--force", "podium-reproduce/acme-resnet:latest")
    answer = capsys.readouterr()
    assert status == 1, answer.err
    assert json.loads(answer.out)["verdict"] == "slower"
    calls = (tmp_path / "work" / "reproduce" / "acme" / "one" / "resnet" / "0" / "calls.jsonl").read_text()
    assert '"--network=none"' in calls
    assert docker("ps", "--all", "--quiet", "--filter", "name=podium-").strip() == ""
