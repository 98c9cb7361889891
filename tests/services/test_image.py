"""An image built by Docker for real: what it says of itself, that it trains, a run that the official checker passes."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
import yaml

import oracle
from podium import cli, plan
from podium import config as configuration
from podium.runs import contract
from podium.verdict.reading import logs
from support import REPOSITORY

# As containers/README.md has it: the config first, then what the run is told, then the entry.
START = 'set -a; . configs/tiny.env; set +a; exec env "$@" ./run_and_time.sh'
SELFTEST = ("python3", "-m", "common.selftest")
LOCKED_UP = ("--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--no-healthcheck")


def test_it_says_what_it_is(docker, image, base):
    found = json.loads(docker("inspect", "--format", "{{json .Config}}", image))
    assert found["Labels"] == {
        "org.opencontainers.image.title": "resnet",
        "org.opencontainers.image.description": "ResNet-50 v1.5 on ImageNet, for MLPerf Training",
        "org.opencontainers.image.base.name": base,
        "org.opencontainers.image.revision": "0123456789abcdef",
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    assert found["User"] == "1000:1000"
    assert found["WorkingDir"] == "/workspace/resnet"


@pytest.mark.parametrize("user", ["1000:1000", "4711:4711"])
def test_it_trains_three_steps_for_any_user_on_a_file_system_it_cannot_write_to(docker, image, user):
    told = docker("run", *LOCKED_UP, "--user", user, image, *SELFTEST)
    assert "accelerators: none" in told
    assert "three steps and an evaluation in order" in told


def test_accelerators_that_are_not_there_are_missed(docker, image):
    told = docker("run", *LOCKED_UP, "--env", "DGXNGPU=8", image, *SELFTEST, status=1)
    assert "DGXNGPU=8, but 0 accelerators are seen" in told


def test_its_health_check_finds_it_healthy(docker, image):
    words = ("run", "--detach", "--rm", "--network", "none", "--health-interval", "1s", image, "sleep", "120")
    container = docker(*words).strip()
    try:
        deadline = time.monotonic() + 100
        while (state := docker("inspect", "--format", "{{.State.Health.Status}}", container).strip()) == "starting":
            assert time.monotonic() < deadline, "no answer of the health check"
            time.sleep(0.5)
        assert state == "healthy", docker("inspect", "--format", "{{json .State.Health}}", container)
    finally:
        docker("kill", container)


def test_a_tiny_run_reaches_its_target_and_the_official_checker_passes_its_log(docker, image, tmp_path):
    value = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    value |= {"root": str(tmp_path / "work"), "results": [value["results"][0]]}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(value))
    for verb in ("sources", "fetch", "prepare", "verify"):
        assert cli.main([verb, "imagenet", "--config", str(path)]) == 0
    config = configuration.load(path)
    [wanted] = plan.plans(config)
    data, output = plan.layout_folder(config, wanted.dataset).absolute(), tmp_path / "logs"
    output.mkdir()
    told = contract.environment(config, wanted, 4711)
    docker(
        *("run", *LOCKED_UP, "--user", f"{os.getuid()}:{os.getgid()}"),
        *("--volume", f"{data}:{contract.DATA}:ro", "--volume", f"{output}:{contract.LOGS}"),
        *(image, "bash", "-euc", START, "run", *(f"{name}={content}" for name, content in told.items())),
    )
    log = output / "mllog.txt"
    run = logs.read(log)
    assert run.converged and run.seed == 4711 and run.evaluations[-1].value >= 0.8
    asked = oracle.log(log, config.submission.round)
    assert asked.compliant, asked.said


def test_a_packed_implementation_builds_and_nothing_hidden_comes_into_it(docker, build_words, image, context):
    """In a packed tree `common` is a folder; the dotfiles are what must never come into an image."""
    packed = context.parent / "implementations"
    shutil.copytree(context / "resnet", packed / "resnet", symlinks=False)
    shutil.copytree(context / "wheels", packed / "wheels")
    shutil.copy(context / ".dockerignore", packed)
    (packed / "resnet" / ".netrc").write_text("machine example.org login someone password planted\n")
    try:
        docker(*build_words, "--file", packed / "resnet" / "Dockerfile", "--tag", f"{image}:packed", packed)
        files = docker("run", *LOCKED_UP, f"{image}:packed", "ls", "-AR", "/workspace").split()
        assert "selftest.py" in files
        assert not [name for name in files if name.startswith(".")]
    finally:
        docker("image", "rm", "--force", f"{image}:packed")


def test_an_implementation_that_cannot_train_is_not_built(docker, build_words, image, context):
    train = context / "resnet" / "train.py"
    whole = train.read_text()
    train.write_text(whole + "\nraise SystemExit('planted')\n")
    try:
        told = docker(*build_words, "--file", context / "resnet" / "Dockerfile", context, status=1)
    finally:
        train.write_text(whole)
    assert "the three steps ended with status 1" in told
