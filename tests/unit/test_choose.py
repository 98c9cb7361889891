"""Which engine builds and runs, and why; what an image holds; whether it still is what was locked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from podium import cli, files, plan
from podium import config as configuration
from podium.errors import BadEnvironment, BadInput
from podium.images import engines, inventory, lock, registry, sbom, verify
from podium.images.engines import Availability, choose, docker, podman, store
from podium.images.inventory import Inventory
from support import SCRIPTED, first_plan

IMAGE = lock.Image("docker", "oci:sha256:" + "a" * 64, "", "", "", None, False, (), {}, {}, id="b", tag="t:1")


@pytest.fixture
def answers(monkeypatch):
    """Let docker and podman answer, or not, and hold the image, or not."""

    def set_up(of_docker: bool, of_podman: bool, holding: str = "") -> None:
        for module, ok in ((docker, of_docker), (podman, of_podman)):
            monkeypatch.setattr(
                module, "available", lambda ok=ok: Availability(ok, "answers" if ok else "is down", "1")
            )

        def held(program, image):
            if program != holding:
                raise BadInput("no", "the image", "another", "")
            return replace(image, id=f"as {program} calls it")

        monkeypatch.setattr(store, "held", held)

    return set_up


def test_auto_builds_with_the_first_that_answers_and_says_why(answers, capsys, tmp_path):
    answers(False, True)
    assert choose.builder("auto", SCRIPTED) == "podman"
    assert "engine auto: podman (answers, version 1)" in capsys.readouterr().out
    answers(True, True)
    assert choose.builder("auto", SCRIPTED) == "docker"
    answers(False, False)
    assert choose.builder("auto", SCRIPTED) == "process"
    assert "docker: is down; podman: is down" in capsys.readouterr().out
    assert choose.builder("auto", tmp_path) == "process", "no Dockerfile there"


def test_what_cannot_be_built_is_refused(answers, tmp_path):
    answers(False, False)
    with pytest.raises(BadEnvironment, match="no engine can build for engine enroot"):
        choose.builder("enroot", SCRIPTED)
    with pytest.raises(BadInput, match="makes no image for engine docker"):
        choose.builder("docker", tmp_path)
    with pytest.raises(BadEnvironment, match="engine docker cannot be used") as error:
        choose.answering("docker")
    assert error.value.found == "is down"


def test_auto_runs_with_the_first_that_holds_the_locked_image(answers, capsys):
    answers(True, True, holding="podman")
    assert choose.runner("auto", IMAGE) == ("podman", replace(IMAGE, id="as podman calls it"))
    assert "engine auto: podman" in capsys.readouterr().out
    answers(True, False)
    with pytest.raises(BadEnvironment, match="no engine can run the image") as error:
        choose.runner("auto", IMAGE)
    assert "docker: the image expected, another found; podman: is down" in error.value.found


def test_an_image_of_the_other_kind_is_refused(answers):
    answers(True, True, holding="docker")
    with pytest.raises(BadInput, match="built for engine docker"):
        choose.runner("process", IMAGE)
    with pytest.raises(BadInput, match="built for engine process"):
        choose.runner("docker", replace(IMAGE, engine="process"))
    assert choose.runner("auto", replace(IMAGE, engine="process"))[0] == "process"


def test_an_image_goes_where_the_config_says(answers):
    answers(False, True)
    assert choose.puller("auto", IMAGE) == "podman"
    assert choose.puller("enroot", IMAGE) == "enroot"
    assert choose.puller("docker", replace(IMAGE, engine="process")) == "process"


def test_the_name_in_a_registry_is_the_content(prepared):
    config = prepared(images={"registry": "registry.example:5000/team"})
    name = registry.name(config, first_plan(config), IMAGE)
    assert name == f"registry.example:5000/team/resnet-scripted:{'a' * 16}"
    bare = prepared()
    with pytest.raises(BadInput, match="no registry"):
        registry.name(bare, first_plan(bare), IMAGE)


@pytest.mark.parametrize(
    ("reference", "loopback"),
    [
        ("127.0.0.1:5000/a@sha256:1", True),
        ("localhost:5000/a", True),
        ("127.1.2.3/a", True),
        ("[::1]:5000/a", True),
        ("10.0.0.1:5000/a", False),
        ("registry.example/a", False),
    ],
)
def test_only_loopback_may_speak_plain_http(reference, loopback):
    assert registry.on_loopback(reference) is loopback


def test_what_is_inside_is_told_by_this_python_as_by_any():
    inside = (engines.__path__[0], "..", "inside.py")
    answer = subprocess.run([sys.executable, "/".join(inside)], capture_output=True, text=True, check=True)
    facts = json.loads(answer.stdout)
    assert facts["packages"]["snakemake"] and facts["licences"]["numpy"]
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(facts) == {"python", "prefix", "machine", "packages", "licences", "system", "conda", "versions"}


FOUND = Inventory(
    python="3.11.2",
    packages={"torch": "2.13.0", "numpy": "2.4.6"},
    system_kind="deb",
    distribution="debian",
    system_packages={"bash": "5.2.15-2"},
    conda_packages={},
    versions={"framework": "torch 2.13.0"},
    licences={"numpy": "BSD-3-Clause", "torch": "its own words"},
)


def test_the_bill_of_materials_is_the_same_for_the_same_image(tmp_path):
    for name in ("a", "b"):
        sbom.write(tmp_path / name, "resnet", "oci:sha256:1", FOUND)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    bill = files.read_json(tmp_path / "a")
    licences = {item["name"]: item.get("licenses") for item in bill["components"]}
    assert licences["numpy"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert licences["torch"] == [{"license": {"name": "its own words"}}]
    assert {item["purl"] for item in bill["components"]} == {
        *("pkg:pypi/torch@2.13.0", "pkg:pypi/numpy@2.4.6", "pkg:deb/debian/bash@5.2.15-2")
    }


def test_differences_are_one_line_each():
    now = {"numpy": "2.4.7", "new": "1"}
    assert inventory.differences(FOUND.packages, now) == [
        *("new absent -> 1", "numpy 2.4.6 -> 2.4.7", "torch 2.13.0 -> absent")
    ]


def test_an_environment_that_is_as_locked_verifies(prepared, built, capsys):
    config = built(prepared())
    image = lock.read(plan.image_file(config, first_plan(config)))
    assert image.packages["pip"] and image.licences and image.sbom and image.base.startswith("Python 3.")
    assert cli.main(["lock", "--verify", "--config", str(config.path)]) == 0
    assert "as locked" in capsys.readouterr().out


def test_what_is_not_as_locked_is_named_with_status_1(prepared, built, capsys):
    config = built(prepared())
    path = plan.image_file(config, first_plan(config))
    image = lock.read(path)
    wrong = replace(image, packages={**image.packages, "pip": "0.1"})
    files.write_json(path, wrong.as_json())
    (path.parent / "implementation" / "run_and_time.sh").write_text("changed")
    path.with_name(sbom.NAME).unlink()
    assert cli.main(["lock", "--verify", "--config", str(config.path)]) == 1
    told = capsys.readouterr().err
    assert f"pip 0.1 -> {image.packages['pip']}" in told
    assert "run_and_time.sh is not the locked one" in told and "sbom.cdx.json is not the locked one" in told


def test_an_environment_that_was_moved_is_found(prepared, built, tmp_path):
    config = built(prepared())
    image = lock.read(plan.image_file(config, first_plan(config)))
    moved = tmp_path / "moved"
    subprocess.run(["cp", "--archive", image.venv, moved], check=True)
    [told] = verify._environment(replace(image, venv=str(moved)))
    assert "was moved" in told
    [told] = verify._environment(replace(image, venv="/nowhere"))
    assert "does not start" in told


def test_one_implementation_has_one_kind_of_image(write_config):

    result = {"benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good"}
    systems = {
        name: {"nodes": 1, "gpus_per_node": 0, "engine": engine} for name, engine in (("a", "process"), ("b", "docker"))
    }
    path = write_config(systems=systems, results=[{**result, "system": "a"}, {**result, "system": "b"}])
    with pytest.raises(BadInput, match="two kinds of image") as error:
        plan.plans(configuration.load(path))
    assert error.value.found == "process on a, docker on b"
