"""`podium describe` through Slurm: one short job, every node tells of itself, and the description is of all of them."""

from __future__ import annotations

from pathlib import Path

import yaml

from podium import cli, files
from podium import config as configuration
from podium.package import system
from services.slurm_cluster import Cluster


def test_all_nodes_of_a_slurm_system_tell_what_they_are(slurm_alone: Cluster, tmp_path: Path, work_root, capsys):
    path = work_root(tmp_path / "work").path
    value = yaml.safe_load(path.read_text())
    options = {"exclusive": False, "poll_seconds": 1}
    value["systems"]["host"] = {"nodes": 2, "gpus_per_node": 0, "launcher": "slurm", "slurm": options}
    path.write_text(yaml.safe_dump(value))
    config = configuration.load(path)
    assert cli.main(["describe", "--system", "host", "--config", str(config.path)]) == 0
    facts = files.read_json(system.facts_file(config, "host"))
    assert len({node["host"] for node in facts["nodes"]}) == 2
    assert all(node["software"]["slurm"] for node in facts["nodes"])
    description = files.read_json(tmp_path / "work" / "systems" / "host.json")
    assert description["number_of_nodes"] == "2" and description["other_software_stack"]["slurm"]
    assert "on 2 nodes" in capsys.readouterr().err
