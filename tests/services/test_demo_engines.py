"""The demo by Docker and by Podman: the tree that engine `process` gives, and what each run logged until it trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from podium import config as configuration
from podium import plan
from podium.config import Config
from podium.verdict.reading import logs
from services.base_image import BASE
from support import snakemake

# What names an image, or the runs that were made in it.
THEIRS = ("README.md", "benchmarks/*/implementations/*/README.md")


def test_the_demo_in_containers_gives_the_tree_of_processes(engine, demo, context, tmp_path, monkeypatch):
    name, client, environment = engine
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    config = in_containers(demo, name, context, tmp_path)
    before = client("ps", "--all", "--quiet")
    snakemake(config.path, "--", "pack_submission")
    assert client("ps", "--all", "--quiet") == before, "containers stayed behind"
    same_trees(plan.tree_folder(demo), plan.tree_folder(config))


def in_containers(demo: Config, engine: str, context: Path, place: Path) -> Config:
    """The demo's config on its data, with its implementations from a copy that has the wheels of their images."""
    value = yaml.safe_load(demo.path.read_text())
    value["systems"]["demo-host"]["engine"] = engine
    value["data"]["root"] = str(demo.data_root)
    for result in value["results"]:
        result["implementation"] = str(context / result["benchmark"])
    value |= {"root": str(place / "work"), "images": {"base": f"localhost/{BASE}", "offline": True}}
    path = place / "config.yaml"
    path.write_text(yaml.safe_dump(value, sort_keys=False))
    return configuration.load(path)


def same_trees(one: Path, other: Path) -> None:
    """The same names and contents, but for what tells of an image and of the runs that were made in it."""
    names = [sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_file()) for tree in (one, other)]
    assert names[0] == names[1]
    for name in names[0]:
        if name.name.startswith("result_"):
            assert setting(one / name) == setting(other / name), name
        elif name.suffix == ".json":
            assert described(one / name) == described(other / name), name
        elif not any(name.match(pattern) for pattern in THEIRS):
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


def setting(log: Path) -> list[tuple[str, Any]]:
    """What a run logged before it trained, but for its seed: each draws one, and trains as long as that takes."""
    lines = [(line.key, line.value) for line in logs.records(log) if line.key != "seed"]
    return lines[: next(number for number, (key, _) in enumerate(lines) if key == "run_start")]


def described(path: Path) -> dict[str, Any]:
    """A system's or a result's description; of an image the packages that the implementation asks for, of runs none."""
    told = json.loads(path.read_text())
    if "image" in told:
        packages = {name: version for name, version in told["image"]["packages"].items() if name != "pip"}
        told = {name: told[name] for name in ("system", "implementation", "config", "data")} | {"packages": packages}
    system = told.get("system", told)
    del system["other_software_stack"]["python"]  # a base brings its own
    return told
