"""Runs on two virtual nodes: a training of four processes that find each other, and nodes that are not fit."""

from __future__ import annotations

import os

import pytest
import yaml

from podium import cli, files, plan
from podium import config as configuration
from podium.runs import launchers, ledger
from services.demo_service import environments
from support import REPOSITORY, SCRIPTED, first_plan

DISTRIBUTED = [
    name for name in ("resnet", "bert") if "join(" in (REPOSITORY / "containers" / name / "train.py").read_text()
]
SETS = {"resnet": "imagenet", "bert": "wikipedia"}


@pytest.mark.parametrize("benchmark", DISTRIBUTED)
def test_a_training_of_two_nodes_with_two_processes_each_reaches_its_target(slurm_alone, tmp_path, benchmark):
    environments(tmp_path / "work")
    value = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    system = {"nodes": 2, "gpus_per_node": 0, "launcher": "slurm", "slurm": {"tasks_per_node": 2, "poll_seconds": 1}}
    system["preflight"] = {"allreduce_gbps": 0.001}
    result = {"system": "pair", "benchmark": benchmark, "implementation": f"containers/{benchmark}", "config": "tiny"}
    value |= {"root": str(tmp_path / "work"), "systems": {"pair": system}, "results": [result]}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(value))
    for verb in ("sources", "fetch", "prepare"):
        assert cli.main([verb, SETS[benchmark], "--config", str(path)]) == 0
    place = ["--system", "pair", "--benchmark", benchmark, "--config", str(path)]
    assert cli.main(["build", *place]) == 0
    assert cli.main(["run", *place, "--attempt", "0"]) == 0
    config = configuration.load(path)
    home = plan.result_folder(config, first_plan(config)) / "0"
    assert launchers.nodes(home) == ["n1", "n2"]
    assert '"processes": 4' in (home / launchers.OUTPUT).read_text(), "they were tried before"
    assert (home / "result.txt").read_text().count('"run_stop"') == 1, "one log of four processes"
    record = files.read_json(home / "run.json")
    assert (record["outcome"], record["nodes"]) == ("converged", ["n1", "n2"])


CHRONYC = """#!/bin/sh
# A clock that is off on one node alone.
[ "$SLURMD_NODENAME" = "$UNFIT" ] && offset=0.9 || offset=0.00001
echo "A29FC87B,time,3,1700000000.1,$offset,0,0,1.2,0.01,0.05,0.001,0.0005,64.2,Normal"
"""


def test_a_node_that_is_not_fit_runs_nothing_and_is_passed_over(slurm_alone, prepared, built, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "chronyc").write_text(CHRONYC)
    (tools / "chronyc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("UNFIT", "n1")
    system = {"nodes": 1, "gpus_per_node": 0, "launcher": "slurm", "slurm": {"exclusive": False, "poll_seconds": 1}}
    result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good"}
    config = built(prepared(systems={"host": system}, results=[result]))
    folder = plan.result_folder(config, first_plan(config))
    words = ["run", "--system", "host", "--benchmark", "resnet", "--attempt", "0", "--config", str(config.path)]
    assert cli.main(words) == 3
    record = files.read_json(folder / "0" / "run.json")
    assert (record["outcome"], record["cause"]) == ("failed", "node not fit")
    assert record["told"] == "n1: the clock is off by 900 ms, 100 may it be"
    assert not (folder / "0" / "logs" / "mllog.txt").exists(), "nothing was begun"
    assert cli.main(words) == 0
    assert files.read_json(folder / "5" / "run.json")["nodes"] == ["n2"]
    assert "--exclude=n1" in (folder / "5" / "job.sh").read_text()
    assert [item.outcome for item in ledger.attempts(folder)] == ["failed", "converged"]
