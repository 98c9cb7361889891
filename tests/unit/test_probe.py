"""`podium doctor --engines`; apptainer and enroot by a stand-in that checks what it is told and runs it for real."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest

from podium import cli, files, plan
from podium.errors import BadEnvironment, BadInput
from podium.images import build, export, lock, probe
from podium.images.engines import choose
from support import REPOSITORY, first_plan


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """apptainer and enroot on the PATH; gives a function that tells how they were called."""
    if os.geteuid() != 0:
        pytest.skip("the stand-in mounts and changes its root: it takes root")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("apptainer", "enroot"):
        shutil.copy(REPOSITORY / "tests" / "fake_engine.py", folder / name)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "calls"))
    return lambda: [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]


def test_process_passes_its_self_test():
    found = probe.probe("process")
    assert found.ok, found.told


def test_apptainer_passes_its_self_test(stand_in):
    found = probe.probe("apptainer")
    assert found.ok, found.told
    assert found.version == "1.3.4" and stand_in()[-1][1] == "exec"


def test_enroot_passes_its_self_test(stand_in):
    if shutil.which("mksquashfs") is None:
        pytest.skip("no mksquashfs; Debian: apt-get install squashfs-tools")
    found = probe.probe("enroot")
    assert found.ok, found.told
    assert found.version == "3.5.0" and stand_in()[-1][1] == "start"


def test_an_engine_that_does_not_do_what_it_should_fails_its_self_test(tmp_path, monkeypatch):
    broken = tmp_path / "apptainer"
    broken.write_text(
        "#!/bin/sh\n[ $1 = version ] && echo 1 && exit 0\necho 'FATAL: no user namespaces' >&2\nexit 255\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = probe.probe("apptainer")
    assert not found.ok and found.told == "FATAL: no user namespaces"


def test_doctor_tells_each_engine_and_why_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(probe, "LIMIT", 10)
    assert cli.main(["doctor", "--engines", "--json"]) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    assert found["engine process"]["present"]
    assert found["engine enroot"]["found"] == "enroot is not on the PATH"


IMAGE = lock.Image(
    engine="docker",
    reference="oci:sha256:" + "a" * 64,
    implementation="",
    venv="",
    python="3.11",
    commit=None,
    dirty=False,
    requirements=(),
    packages={},
    files={},
    id="sha256:" + "b" * 64,
    digest=f"registry.example/podium/resnet@sha256:{'c' * 64}",
    workdir="/workspace",
    size=10,
)


def test_a_sif_is_made_once_from_the_registry_by_digest(stand_in, prepared):
    config = prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "engine": "apptainer"}})
    path = plan.image_file(config, first_plan(config))
    files.write_json(path, IMAGE.as_json())
    for _ in range(2):
        image = export.export(config, first_plan(config), "sif")
    target = image.exports["sif"].path
    new = target.replace("scripted.sif", ".new.scripted.sif")
    assert [call for call in stand_in() if call[1] == "build"] == [
        ["apptainer", "build", "--force", new, f"docker://{IMAGE.digest}"]
    ]
    assert choose.runner("apptainer", lock.read(path)) == ("apptainer", image)
    assert choose.runner("auto", lock.read(path))[0] == "apptainer"


def test_an_export_that_fails_leaves_nothing(stand_in, prepared, monkeypatch):
    config = prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "engine": "apptainer"}})
    path = plan.image_file(config, first_plan(config))
    files.write_json(path, IMAGE.as_json())
    monkeypatch.setattr(export, "_sif", lambda image, target: (target.write_text("half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        export.export(config, first_plan(config), "sif")
    assert not [item.name for item in path.parent.iterdir() if "sif" in item.name]


def test_no_space_is_said_before_anything_is_made(prepared, monkeypatch):
    config = prepared()
    files.write_json(plan.image_file(config, first_plan(config)), replace(IMAGE, size=10**15).as_json())
    with pytest.raises(BadEnvironment, match="disk too small"):
        export.export(config, first_plan(config), "tar")


def test_a_missing_program_is_named_with_the_package_that_has_it(prepared, tmp_path, monkeypatch):
    config = prepared()
    files.write_json(plan.image_file(config, first_plan(config)), IMAGE.as_json())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadEnvironment, match="apt-get install squashfs-tools"):
        export.export(config, first_plan(config), "sqsh")


def test_what_has_no_layers_is_neither_pushed_nor_exported(prepared, built):
    from podium.images import push

    config = built(prepared())
    for attempt in (
        lambda: export.export(config, first_plan(config), "tar"),
        lambda: push.push(config, first_plan(config)),
    ):
        with pytest.raises(BadInput, match="no container image"):
            attempt()


def test_a_shell_is_a_run_with_other_words(prepared, built, capfd, monkeypatch):
    config = built(prepared())
    started = []
    monkeypatch.setattr(os, "execvp", lambda program, words: started.append(words))
    words = ["shell", "--config", str(config.path), "--", "bash", "-c", "exit 3"]
    assert cli.main(words) == 0
    [command] = started
    assert command[:2] == ["env", "--ignore-environment"] and command[-3:] == ["bash", "-c", "exit 3"]
    assert build.selected(config, type("Args", (), {"system": None, "benchmark": "resnet"}))[0].benchmark == "resnet"
