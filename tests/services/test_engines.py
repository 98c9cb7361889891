"""Docker and Podman for real: images built, locked, run, and everything that goes wrong with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from podium import cli, files, plan
from podium import config as configuration
from podium.errors import BadEnvironment, BadInput
from podium.images import build, engines, lock, pull
from podium.images.engines import choose
from support import SCRIPTED, config_text, first_plan

# `podium` with a second instead of half a minute between SIGTERM and SIGKILL.
IMPATIENT = """
import sys
from podium import cli
from podium.runs.launchers import local
local.GRACE = 1
sys.exit(cli.main(sys.argv[1:]))
"""


def image_of(config):
    return lock.read(plan.image_file(config, first_plan(config)))


def called(*words, config, status=0):
    assert cli.main([*words, "--config", str(config.path)]) == status


def words_of_a_run(config):
    return ["run", "--system", "host", "--benchmark", "resnet", "--attempt", "0", "--config", str(config.path)]


def test_an_image_is_built_once_and_locked(on_engine, capsys):
    config = on_engine.config()
    called("build", "--offline", config=config)
    image = image_of(config)
    assert (image.engine, image.workdir, image.architecture) == (on_engine.name, "/workspace/scripted", "amd64")
    assert image.reference.startswith("oci:sha256:") and image.base.startswith("localhost/podium-tests/base@sha256:")
    assert image.system_packages["bash"] and image.python.startswith("3.") and image.size > 10_000_000
    bill = files.read_json(plan.image_file(config, first_plan(config)).with_name("sbom.cdx.json"))
    assert bill["bomFormat"] == "CycloneDX"
    purl = f"pkg:deb/debian/bash@{quote(image.system_packages['bash'])}"
    assert purl in [item["purl"] for item in bill["components"]]
    log = plan.image_file(config, first_plan(config)).with_name("build.log")
    before, built = log.stat().st_mtime_ns, plan.image_file(config, first_plan(config)).read_bytes()
    called("build", "--offline", config=config)
    assert log.stat().st_mtime_ns == before, "nothing was to be built"
    assert plan.image_file(config, first_plan(config)).read_bytes() == built
    called("lock", "--verify", config=config)
    assert "as locked" in capsys.readouterr().out


def test_the_same_inputs_give_the_same_packages(on_engine, capsys):
    config = on_engine.config()
    called("build", "--offline", config=config)
    called("lock", "--rebuild", config=config)
    assert "as locked" in capsys.readouterr().out
    assert f"{image_of(config).tag}-again" not in on_engine.client("images")


def test_what_a_run_writes_is_the_callers(on_engine):
    config = on_engine.config()
    called("build", "--offline", config=config)
    assert cli.main(words_of_a_run(config)) == 0
    home = plan.result_folder(config, first_plan(config)) / "0"
    assert (home / "logs" / "mllog.txt").stat().st_uid == os.getuid()
    assert files.read_json(home / "environment.json")["engine"] == on_engine.name


def test_a_run_that_ignores_sigterm_is_killed_and_nothing_of_it_stays(on_engine):
    config = on_engine.config("stubborn")
    called("build", "--offline", config=config)
    process = subprocess.Popen([sys.executable, "-c", IMPATIENT, *words_of_a_run(config)])
    log = plan.result_folder(config, first_plan(config)) / "0" / "logs" / "mllog.txt"
    _until(lambda: log.exists() and "block_start" in log.read_text())
    process.terminate()
    assert process.wait(timeout=60) != 0
    _until(lambda: not on_engine.ids())
    record = files.read_json(log.parents[1] / "run.json")
    assert record["outcome"] not in ("converged", "not_converged")


def _until(happened, seconds=30):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_container_whose_client_was_killed_is_found_and_ended_by_its_name(on_engine):
    config = on_engine.config("slow")
    called("build", "--offline", config=config)
    _, image = choose.runner(on_engine.name, image_of(config))
    module = engines.of(on_engine.name)
    run = engines.Run(image, None, {}, name="podium-tests-killed", words=("sleep", "60"))
    client = subprocess.Popen(module.command(run))
    _until(lambda: on_engine.client("ps", "--quiet").split())
    client.send_signal(signal.SIGKILL)
    client.wait()
    assert on_engine.client("ps", "--quiet").split(), "it outlives its client"
    engines.end(on_engine.name, run.name, 1)


def test_two_builds_of_one_image_wait_for_each_other(on_engine):
    config = on_engine.config()
    words = [sys.executable, "-m", "podium.cli", "build", "--offline", "--config", str(config.path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert sum("built by" in words for words in told) == 1, told


# What goes wrong.


def spoilt(tmp_path: Path, dockerfile: str) -> Path:
    """The scripted implementation with another Dockerfile."""
    folder = tmp_path / "implementation"
    shutil.copytree(SCRIPTED, folder)
    (folder / "Dockerfile").write_text(f"ARG BASE\nFROM ${{BASE}}\nWORKDIR /workspace\nCOPY . ./\n{dockerfile}\n")
    return folder


def test_a_build_that_is_ended_leaves_nothing(on_engine, tmp_path):
    config = on_engine.config(implementation=spoilt(tmp_path, "RUN echo planted; sleep 4711"))
    log = plan.image_file(config, first_plan(config)).with_name("build.log")
    process = subprocess.Popen([sys.executable, "-m", "podium.cli", "build", "--offline", "--config", str(config.path)])
    _until(lambda: log.exists() and "planted" in log.read_text())
    process.terminate()
    assert process.wait(timeout=60) == 130
    if on_engine.name == "podman":
        assert not on_engine.client("ps", "--all", "--external", "--quiet").split()
    _until(lambda: "sleep 4711" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout)
    assert not plan.image_file(config, first_plan(config)).exists()


def test_a_failed_step_is_shown_with_its_last_words(on_engine, tmp_path):
    step = "RUN echo first && echo 'No space left on device' >&2 && exit 9"
    config = on_engine.config(implementation=spoilt(tmp_path, step))
    with pytest.raises(BadEnvironment) as error:
        build.build(config, first_plan(config), offline=True)
    assert "echo first" in error.value.expected
    assert "the disk is full" in error.value.found and "No space left on device" in error.value.found
    assert not plan.image_file(config, first_plan(config)).exists()


@pytest.mark.parametrize(("gone", "told"), [("bash", "bash"), ("python3*", "no python3")])
def test_an_image_without_bash_or_python_is_not_locked(on_engine, tmp_path, gone, told):
    config = on_engine.config(implementation=spoilt(tmp_path, f"RUN rm -f /usr/bin/{gone}"))
    with pytest.raises(BadInput, match="does not say what is in it") as error:
        build.build(config, first_plan(config), offline=True)
    assert told in error.value.found
    assert not plan.image_file(config, first_plan(config)).exists()


def test_a_secret_is_mounted_and_stays_in_no_image(on_engine, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("planted-4711")  # 12 bytes
    step = "RUN --mount=type=secret,id=token,mode=0444 [ $(wc -c </run/secrets/token) = 12 ]"
    config = on_engine.config(implementation=spoilt(tmp_path, step), images={"secrets": {"token": str(secret)}})
    image = build.build(config, first_plan(config), offline=True)
    assert "planted-4711" not in on_engine.client("image", "inspect", image.id)
    assert "planted-4711" not in on_engine.client("history", "--no-trunc", image.id)
    assert "planted-4711" not in plan.image_file(config, first_plan(config)).read_text()


def test_a_tag_that_was_moved_is_found_and_a_run_takes_the_locked_image_all_the_same(on_engine, capsys):
    config = on_engine.config()
    called("build", "--offline", config=config)
    image = image_of(config)
    on_engine.client("tag", "localhost/podium-tests/base", image.tag)
    called("lock", "--verify", config=config, status=1)
    assert f"the tag {image.tag} was moved" in capsys.readouterr().err
    assert cli.main(words_of_a_run(config)) == 0
    on_engine.client("image", "rm", "--force", image.id)
    with pytest.raises(BadInput, match="does not hold the locked image") as error:
        choose.runner(on_engine.name, image)
    assert image.reference == error.value.expected and "oci:sha256:" in error.value.found
    on_engine.client("rmi", image.tag)


def test_an_image_of_another_architecture_is_not_brought_here(on_engine, tmp_path):
    config = on_engine.config()
    called("build", "--offline", config=config)
    path = plan.image_file(config, first_plan(config))
    image = replace(lock.read(path), architecture="riscv64", id="sha256:" + "0" * 64, tag="localhost/none:1")
    files.write_json(
        path, replace(image, reference="oci:sha256:" + "0" * 64, digest=f"h/n@sha256:{'0' * 64}").as_json()
    )
    with pytest.raises(BadInput, match="another architecture"):
        pull.pull(config, first_plan(config))


def test_a_daemon_that_is_down_is_said_to_be(tmp_path, write_config, monkeypatch):
    if shutil.which("docker") is None:
        pytest.skip("no docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    value = config_text(tmp_path / "work", systems={"host": {"nodes": 1, "gpus_per_node": 0, "engine": "docker"}})
    config = configuration.from_mapping(value | {"images": {"base": "none"}}, tmp_path / "config.yaml")
    with pytest.raises(BadEnvironment) as error:
        build.build(config, first_plan(config), offline=True)
    assert "Is the docker daemon running" in error.value.found
