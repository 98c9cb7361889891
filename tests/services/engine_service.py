"""Docker and Podman as the tests of both see them: the environment set, a base image in the store, a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podium import config as configuration
from podium import manifest, plan
from podium.config import Config
from services.base_image import BASE
from support import SCRIPTED


@dataclass(frozen=True)
class OnEngine:
    """One engine: its command line, and a config whose images it builds and runs, with its data in place."""

    name: str
    client: Callable[..., str]
    config: Callable[..., Config]

    def ids(self) -> list[str]:
        """Every container that there is, of whatever state."""
        return self.client("ps", "--all", "--quiet").split()


@pytest.fixture(scope="session", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, base_archive: Path) -> Iterator[tuple[str, Callable, dict[str, str]]]:
    """Docker, then Podman, each with the base image in its store: name, command line, environment."""
    name = request.param
    client = request.getfixturevalue(name)
    environment = request.getfixturevalue(f"{name}_environment")
    client("import", base_archive, f"localhost/{BASE}")
    yield name, client, environment
    client("image", "rm", "--force", f"localhost/{BASE}")


@pytest.fixture
def on_engine(engine, write_config, monkeypatch) -> Iterator[OnEngine]:
    """An engine for one test, which must leave no container and no volume behind."""
    name, client, environment = engine
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    def config(env: str = "good", implementation: Path = SCRIPTED, **changes: Any) -> Config:
        systems = {"host": {"nodes": 1, "gpus_per_node": 0, "engine": name}}
        result = {"system": "host", "benchmark": "resnet", "implementation": str(implementation), "config": env}
        images = {"base": f"localhost/{BASE}"} | changes.pop("images", {})
        path = write_config(env, **{"systems": systems, "results": [result], "images": images, **changes})
        loaded = configuration.load(path)
        folder = plan.layout_folder(loaded, loaded.dataset("imagenet"))
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "train.rec").write_bytes(b"records")
            manifest.write(folder, manifest.of_folder(folder))
        return loaded

    found = OnEngine(name, client, config)
    before, volumes = found.ids(), client("volume", "ls", "--quiet").split()
    yield found
    assert found.ids() == before, "containers stayed behind"
    assert client("volume", "ls", "--quiet").split() == volumes, "volumes stayed behind"
