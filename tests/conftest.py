"""Shared by all tests: a work root of its own for each, with a scripted implementation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from podium import config as configuration
from podium import manifest, plan
from podium.config import Config
from support import config_text

# Machines are shared: a slow moment is no failing property. CI's answer is of the change, not of what is drawn;
# anywhere else each run draws anew and looks on.
settings.register_profile(
    "shared",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("shared")


@pytest.fixture
def write_config(tmp_path: Path):
    """Write a config file for a work root below the test's folder; returns its path."""

    def write(name: str = "good", **changes: Any) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config_text(tmp_path / "work", name, **changes)))
        return path

    return write


@pytest.fixture
def prepared(write_config):
    """A loaded config whose data set is in place: a manifest over one file, as `podium prepare` leaves it."""

    def prepare(name: str = "good", **changes: Any) -> Config:
        config = configuration.load(write_config(name, **changes))
        folder = plan.layout_folder(config, config.dataset("imagenet"))
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "train.rec").write_bytes(b"records")
            manifest.write(folder, manifest.of_folder(folder))
        return config

    return prepare


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory):
    """Build the scripted implementation's image for a config, sharing one virtual environment between tests."""
    from podium.images import build

    shared = tmp_path_factory.mktemp("venvs") / "venvs"

    def build_for(config: Config) -> Config:
        images = config.root / "images"
        images.mkdir(parents=True, exist_ok=True)
        if not (images / "venvs").exists():
            shared.mkdir(exist_ok=True)
            (images / "venvs").symlink_to(shared)
        for item in plan.plans(config):
            build.build(config, item)
        return config

    return build_for


@pytest.fixture(scope="session")
def work_root(tmp_path_factory: pytest.TempPathFactory, built):
    """Work roots whose runs are recorded and checked (finished.py): each a copy of one that is made once."""
    from finished import maker

    return maker(tmp_path_factory.mktemp("finished"), built)
