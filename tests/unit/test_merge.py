"""Several work roots in one submission: what both bring, and every conflict by name."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from podium import cli, files, plan
from podium import config as configuration
from podium.errors import BadInput
from podium.package import archive, inspect, layout, sources
from podium.report import board
from support import SCRIPTED


def other_system(name: str = "cluster-b") -> dict:
    result = {"system": name, "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good"}
    return {"systems": {name: {"nodes": 1, "gpus_per_node": 0}}, "results": [result]}


@pytest.fixture
def pair(tmp_path, work_root):
    """Two clusters' work roots, and the first one's config with the other merged into it."""

    def make(**changes):
        first = work_root(tmp_path / "a")
        second = work_root(tmp_path / "b", **changes or other_system())
        return merged(first, second.path), second

    return make


def merged(config, other: Path, root: Path | None = None):
    value = yaml.safe_load(config.path.read_text())
    entry = {"config": str(other)} | ({"root": str(root)} if root else {})
    path = config.path.with_name("both.yaml")
    path.write_text(yaml.safe_dump(value | {"package": {"merge": [entry]}}))
    return configuration.load(path)


def test_two_work_roots_make_one_submission_that_the_official_checkers_pass(pair):
    config, _ = pair()
    content = layout.pack(config)
    tree = plan.tree_folder(config)
    assert content.counts == {"results": 2, "runs": 10}
    assert {path.name for path in (tree / "results").iterdir()} == {"host", "cluster-b"}
    implementations = tree / "benchmarks" / "resnet" / "implementations"
    assert {path.name for path in implementations.iterdir()} == {"scripted", "host", "cluster-b"}
    assert {path.name for path in layout.ledger_folder(config).iterdir()} == {"host", "cluster-b"}
    assert inspect.inspect(config)["official"]["package"]["passed"]
    assert archive.archive(config, force=True)["counts"] == {"results": 2, "runs": 10}
    assert {row.system for row in board.board(config).rows} == {"host", "cluster-b"}


def test_a_work_root_that_was_copied_here_is_as_good(pair, tmp_path):
    config, second = pair()
    shutil.copytree(second.root, tmp_path / "copied", symlinks=True, ignore=shutil.ignore_patterns("venvs"))
    shutil.rmtree(second.root)
    config = merged(configuration.load(tmp_path / "a.yaml"), second.path, tmp_path / "copied")
    assert layout.pack(config).counts["results"] == 2


def test_a_result_that_two_work_roots_have_is_named(pair, tmp_path):
    config, _ = pair(
        submission={"org": "tests", "division": "open", "round": "3.1.0", "status": "research", "demo": True}
    )
    with pytest.raises(BadInput) as error:
        layout.pack(config)
    assert f"host/resnet is in {tmp_path / 'a'} and in {tmp_path / 'b'}" in error.value.found


def test_descriptions_and_code_that_differ_under_one_name_are_named(pair, tmp_path):
    config, second = pair()
    lock = files.read_json(sources.sources(second)[0].image_file)
    files.write_json(
        sources.sources(second)[0].image_file, {**lock, "files": {**lock["files"], "run_and_time.sh": "0"}}
    )
    with pytest.raises(BadInput) as error:
        sources.sources(config)
    assert "implementation scripted of resnet: run_and_time.sh differ" in error.value.found


def test_two_systems_of_one_name_must_be_described_alike(tmp_path, work_root):
    first = work_root(tmp_path / "a")
    second = work_root(tmp_path / "b")
    path = plan.system_file(second, "host")
    files.write_json(path, {**files.read_json(path), "cooling": "Liquid"})
    with pytest.raises(BadInput) as error:
        sources.sources(merged(first, second.path))
    assert "system host: cooling differ" in error.value.found


def test_a_config_of_another_submission_is_refused(pair, capsys):
    config, second = pair(
        **other_system(),
        submission={"org": "others", "division": "open", "round": "3.1.0", "status": "research", "demo": True},
    )
    assert cli.main(["pack", "--config", str(config.path)]) == 2
    told = capsys.readouterr().err
    assert f"{second.path} is of another submission" in told and "submission.org: others" in told


def test_a_moved_work_root_takes_its_data_along_unless_the_data_has_a_place_of_its_own(tmp_path, work_root):
    second = work_root(tmp_path / "b", **other_system())
    config = merged(second, second.path, Path("/elsewhere"))
    assert sources.configs(config)[1].data_root == Path("/elsewhere/data")
    fixed = replace(second, data_root=Path("/shared"))
    assert fixed.data_root != fixed.root / "data"
