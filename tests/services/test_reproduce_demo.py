"""The demo's own result, trained again in each style: as it is packed, and dressed as submitters dress theirs.

Times of a shared machine are noise, so no test asks which verdict there is; each asks what it rests on.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import published
from podium import cli, files, plan
from podium.config import Config
from podium.verdict.reading import logs
from published import STYLES
from services.demo_service import environments

RUNS, REQUIRED, BATCH_SIZE, TARGET = 2, 5, 32, 0.80  # of the config tiny
NAME = Path("podium-demo", "demo-host", "resnet")
IMAGE = "podium-reproduce/podium-demo-resnet:latest"


@pytest.mark.parametrize("style", ["wrapper", "plain"])
def test_the_demo_is_trained_again_as_it_is_packed(demo, tmp_path, capsys, style):
    replayed(demo, tmp_path, style, capsys)


def test_the_demo_is_trained_again_by_docker(demo, docker, image, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip())
    try:
        home = replayed(demo, tmp_path, "docker", capsys, engine="docker")
    finally:
        docker("image", "rm", "--force", IMAGE)
    assert '"--network=none"' in (home / "0" / "calls.jsonl").read_text()
    assert docker("ps", "--all", "--quiet", "--filter", "name=podium-").strip() == ""


def test_the_demo_is_trained_again_by_slurm(demo, slurm_alone, tmp_path, capsys):
    slurm = {"exclusive": False, "poll_seconds": 1}
    home = replayed(demo, tmp_path, "slurm", capsys, launcher="slurm", slurm=slurm)
    assert '"srun", "--overlap"' in (home / "0" / "calls.jsonl").read_text()


def replayed(demo: Config, place: Path, style: str, capsys: pytest.CaptureFixture[str], **system: Any) -> Path:
    """Run the demo's result again in a style, hold the runs and the comparison to what they are; where they lie."""
    theirs = dressed(plan.tree_folder(demo), place / "round" / NAME.parts[0], style)
    which = ["--submitter", NAME.parts[0], "--system", NAME.parts[1], "--benchmark", NAME.parts[2], "--round", "3.1.0"]
    config = ours(demo, place, system)
    status = cli.main(["reproduce", str(theirs.parent), *which, "--yes", "--json", "--config", str(config)])
    answer = capsys.readouterr()
    assert status in (0, 1), answer.out + answer.err
    found, home = json.loads(answer.out), place / "work" / "reproduce" / NAME
    assert files.read_json(home / "plan.json")["style"] == style
    compared(found, [trained(home / str(number)) for number in range(RUNS)], theirs)
    assert status == int(found["verdict"] not in ("reproduced", "faster"))
    return home


def dressed(tree: Path, to: Path, style: str) -> Path:
    """A copy of the demo's tree as a submitter who automates runs in a style publishes it.

    A packed tree has the policy's wrapper; without it the implementation is the bare contract.
    """
    shutil.copytree(tree, to)
    home = to / "benchmarks" / "resnet" / "implementations"
    if style == "wrapper":
        return to
    shutil.rmtree(home / "demo-host")
    if style != "plain":
        shutil.copytree(STYLES / "demo", home / "resnet", dirs_exist_ok=True)
        for name in ("run_and_time.sh", published.ENTRY[style]):
            shutil.copy2(STYLES / name, home / "resnet")
    return to


def ours(demo: Config, place: Path, system: dict[str, Any]) -> Path:
    """A config with a work root of its own, on the demo's data and environments."""
    value = yaml.safe_load(demo.path.read_text())
    value["systems"]["demo-host"] |= system
    value["data"]["root"] = str(demo.data_root)
    value |= {"root": str(place / "work"), "reproduce": {"runs": RUNS}}
    environments(place / "work")
    path = place / "config.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


def trained(folder: Path) -> float:
    """Hold a run's log to a training that went on until it met the target, and no longer; its minutes."""
    record, log = files.read_json(folder / "run.json"), folder / "result.txt"
    lines = [item for item in logs.records(log) if not isinstance(item, logs.Broken)]
    values = {item.key: item.value["value"] for item in lines}
    scores = [item.value["value"] for item in lines if item.key == "eval_accuracy"]
    assert len(scores) > 1
    assert max(scores[:-1]) < TARGET <= scores[-1], scores
    assert (record["exit_status"], record["converged"]) == (0, True)
    assert values["seed"] == record["seed"]
    assert values["global_batch_size"] == BATCH_SIZE
    assert values["cache_clear"] is True
    return record["minutes"]


def compared(found: dict[str, Any], mine: list[float], theirs: Path) -> None:
    """Hold a comparison to the minutes of the runs on both sides, and its verdict to what it may rest on."""
    published_ = [logs.read(path).minutes for path in sorted((theirs / "results").rglob("result_*.txt"))]
    assert len(published_) == REQUIRED
    for side, minutes in (("theirs", published_), ("mine", mine)):
        about = found[side]
        assert (about["runs"], about["converged"], about["batch_size"]) == (len(minutes), len(minutes), BATCH_SIZE)
        assert about["minutes"] == pytest.approx(minutes)
        assert len(about["points"]) == len(minutes)
    # Both trained to the same target with the same batch: time alone is left to decide, or to be too noisy for it.
    word, percent, reasons = found["verdict"], found["percent"], found["reasons"]
    assert "convergence does not differ" in reasons[0] or "epochs to the target" in reasons[0]
    assert found["speed"] and found["convergence"] and found["time"]
    if word == "not comparable":
        assert "holds both answers" in reasons[-1]
    else:
        assert {"reproduced": abs(percent) < 5, "faster": percent < 0, "slower": percent > 0}[word]
    assert Path(found["page"]).read_text().startswith("<!doctype html>")
