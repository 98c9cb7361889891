"""The demo, of resnet alone: its environment, and its tree from generated data and real trainings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from podium import config as configuration
from podium.config import Config
from services.service import absent
from support import REPOSITORY, snakemake

VENVS = REPOSITORY / "work" / "images" / "venvs"  # the demo's environments: nothing is downloaded here


def environments(root: Path) -> None:
    """Let a work root use the demo's environments."""
    if not VENVS.is_dir():
        absent("the demo's image", "make demo, or podium build --system demo-host --benchmark resnet")
    (root / "images").mkdir(parents=True)
    (root / "images" / "venvs").symlink_to(VENVS)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The demo as `make demo` makes it up to the packed tree: the required five runs, every one a training."""
    place = tmp_path_factory.mktemp("demo")
    value = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    value["data"]["sets"] = {"imagenet": value["data"]["sets"]["imagenet"]}
    value |= {"root": str(place / "work"), "results": value["results"][:1], "nightly": {}}
    path = place / "config.yaml"
    path.write_text(yaml.safe_dump(value))
    environments(place / "work")
    snakemake(path, "--", "pack_submission")
    return configuration.load(path)
