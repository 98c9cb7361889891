"""Work roots whose runs are recorded and checked, for the tests of what is made of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.package import nodes, system
from podium.runs import run as runs
from podium.verdict import check
from support import config_text


def maker(place: Path, built: Callable[[Config], Config]) -> Callable[..., Config]:
    """A function `work_root(root, count, **changes)` as below; what one set of changes asks for is made once, below
    `place`, and copied to each root."""
    made: dict[str, Path] = {}

    def work_root(root: Path, count: int | None = None, **changes: Any) -> Config:
        """A config `<root>.yaml` and its work root: data in place, image built, `count` runs of each result recorded
        (by default all), systems described, results checked."""
        key = json.dumps([count, changes], sort_keys=True, default=str)
        if key not in made:
            made[key] = place / str(len(made))
            _make(_config(made[key], changes), built, count)
        shutil.copytree(made[key], root, symlinks=True)
        return _config(root, changes)

    return work_root


def _config(root: Path, changes: dict[str, Any]) -> Config:
    path = root.with_suffix(".yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config_text(root, **changes)))
    return configuration.load(path)


def _make(config: Config, built: Callable[[Config], Config], count: int | None) -> None:
    data = plan.layout_folder(config, config.dataset("imagenet"))
    data.mkdir(parents=True)
    (data / "train.rec").write_bytes(b"records")
    manifest.write(data, manifest.of_folder(data))
    built(config)
    for item in plan.plans(config):
        for number in range(item.attempts if count is None else count):
            runs.run(config, item, number)
        system.write(config, item.system, [nodes.collect()])
        check.check_result(config, item)


def described(config: Config, **fields: str) -> None:
    """Fill every field of every description, so that none is open; `fields` have values of their own."""
    for item in plan.plans(config):
        path = plan.system_file(config, item.system.name)
        known = files.read_json(path)
        files.write_json(path, {key: fields.get(key, value or "N/A") for key, value in known.items()})
