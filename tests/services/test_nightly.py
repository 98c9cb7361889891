"""Bisection over images of engine `docker`, for real: the step of some sleeps longer."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from podium import cli, files, manifest, plan
from podium import config as configuration
from podium.images import build
from support import SCRIPTED, config_text, first_plan

DOCKERFILE = "ARG BASE\nFROM ${BASE}\nWORKDIR /workspace\nCOPY . .\n"
NIGHTLY = {"results": [{"system": "host", "benchmark": "resnet", "runs": 2, "samples": 192}]}


@pytest.fixture
def site(docker, base, tmp_path, monkeypatch):
    """A config whose runs are containers of a scripted implementation; the daemon is the tests'."""
    monkeypatch.setenv("DOCKER_HOST", docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip())
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")
    source = tmp_path / "implementation"
    shutil.copytree(SCRIPTED, source)
    (source / "Dockerfile").write_text(DOCKERFILE)
    text = config_text(tmp_path / "work", "steps", nightly=NIGHTLY, images={"base": base})
    text["systems"]["host"]["engine"] = "docker"
    text["results"][0]["implementation"] = str(source)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(text))
    config = configuration.load(path)
    folder = plan.layout_folder(config, config.dataset("imagenet"))
    folder.mkdir(parents=True)
    (folder / "train.rec").write_bytes(b"records")
    manifest.write(folder, manifest.of_folder(folder))
    return config, source


def test_bisection_over_docker_images_names_the_first_slow_one(docker, site, capsys, tmp_path):
    config, source = site
    locks, ids = [], []
    try:
        for number, extra in enumerate(("0.0000", "0.0001", "0.15", "0.1501")):
            (source / "extra_sleep").write_text(extra)
            image = build.build(config, first_plan(config), offline=True)
            ids.append(image.id)
            files.write_json(tmp_path / f"{number}.json", image.as_json())
            locks.append(str(tmp_path / f"{number}.json"))
        capsys.readouterr()
        words = ("--system", "host", "--benchmark", "resnet", "--json", "--images", *locks)
        assert cli.main(["nightly", "bisect", "--config", str(config.path), *words]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["last_good"], told["first_bad"]) == (locks[1], locks[2])
        assert told["low"] > 0
        assert not docker("ps", "--all", "--quiet").strip(), "no container is left"
    finally:
        docker("image", "rm", "--force", *dict.fromkeys(ids))
