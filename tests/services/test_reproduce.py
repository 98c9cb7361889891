"""Published results in their Slurm style and their Docker style, run again by real Slurm and by real Docker."""

from __future__ import annotations

import json
from pathlib import Path

import published
import pytest
import yaml
from support import config_text

from podium import cli, config, manifest, plan


@pytest.fixture
def reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run `podium reproduce` on a made round in a style; gives its status and its comparison."""

    def run(style: str, seconds: float, system: dict, *words: str) -> tuple[int, dict]:
        submitter = published.code(tmp_path / "round", style, seconds)
        published.results(submitter, 3)
        path = tmp_path / "podium.yaml"
        path.write_text(yaml.safe_dump(config_text(tmp_path / "work", systems={"host": system}, reproduce={"runs": 2})))
        loaded = config.load(path)
        data = plan.layout_folder(loaded, loaded.dataset("imagenet"))
        data.mkdir(parents=True)
        (data / "train.rec").write_bytes(b"records")
        manifest.write(data, manifest.of_folder(data))
        asked = ["--submitter", "acme", "--system", "one", "--benchmark", "resnet", "--round", published.ROUND]
        status = cli.main(
            ["reproduce", str(tmp_path / "round"), *asked, "--yes", "--json", "--config", str(path), *words]
        )
        return status, json.loads(capsys.readouterr().out)

    return run


SLURM = {"nodes": 1, "gpus_per_node": 0, "launcher": "slurm", "slurm": {"exclusive": False, "poll_seconds": 1}}


@pytest.mark.parametrize(("seconds", "verdict"), [(3, "reproduced"), (3.6, "slower")])
def test_a_result_in_slurm_style_is_run_again_by_slurm(slurm_alone, reproduce, seconds, verdict):
    status, found = reproduce("slurm", seconds, SLURM)
    assert (found["verdict"], status) == (verdict, int(verdict != "reproduced")), found
