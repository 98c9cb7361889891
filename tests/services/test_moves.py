"""Images moved for real: to a registry and back, as files, to users without any right; and registries that fail."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from podium import cli, files, plan
from podium.errors import BadEnvironment, BadInput, PodiumError
from podium.images import build, engines, export, lock, pull, push
from podium.images.engines import request, store
from services.service import absent, output
from support import SCRIPTED, first_plan


@pytest.fixture
def locked(on_engine, registry):
    """A config whose image is built and pushed to a registry on loopback."""
    config = on_engine.config(images={"registry": f"{registry}/podium"})
    assert cli.main(["build", "--offline", "--config", str(config.path)]) == 0
    push.push(config, first_plan(config))
    return config


def image_of(config):
    return lock.read(plan.image_file(config, first_plan(config)))


def forget(on_engine, config) -> lock.Image:
    """Remove the image from the store, as on another cluster; returns its lock."""
    image = image_of(config)
    on_engine.client("image", "rm", "--force", image.id)
    assert not store.holds(on_engine.name, image)
    return image


def lead_to(config, address: str) -> None:
    """Let the lock name another registry for the same digest."""
    path = plan.image_file(config, first_plan(config))
    image = lock.read(path)
    files.write_json(path, replace(image, digest=f"{address}/{image.digest.partition('/')[2]}").as_json())


def test_an_image_goes_to_a_registry_and_comes_back_the_same(on_engine, locked, registry, capsys):
    image = forget(on_engine, locked)
    assert image.digest.startswith(f"{registry}/podium/resnet-scripted@sha256:")
    assert pull.pull(locked, first_plan(locked)).reference == image.reference
    assert cli.main(["lock", "--verify", "--config", str(locked.path)]) == 0
    assert "as locked" in capsys.readouterr().out


def test_a_lock_that_snakemake_deleted_is_found_again(on_engine, locked):
    path = plan.image_file(locked, first_plan(locked))
    image = lock.read(path)
    path.unlink()
    log = path.with_name("build.log").stat()
    assert cli.main(["build", "--offline", "--config", str(locked.path)]) == 0
    assert lock.read(path) == image and image.digest
    assert path.with_name("build.log").stat().st_mtime_ns == log.st_mtime_ns, "nothing was to be built"


def test_an_image_comes_from_a_file(on_engine, locked):
    made = export.export(locked, first_plan(locked), "tar").exports["tar"]
    image = forget(on_engine, locked)
    assert pull.pull(locked, first_plan(locked), Path(made.path)).reference == image.reference


def test_another_image_under_the_locked_digest_or_in_the_file_is_refused(on_engine, locked, tmp_path):
    image = forget(on_engine, locked)
    other = tmp_path / "other.tar"
    on_engine.client("save", "--output", other, "localhost/podium-tests/base")
    with pytest.raises(BadInput, match="does not hold the locked image"):
        pull.pull(locked, first_plan(locked), other)
    assert not store.holds(on_engine.name, image)


FAULTS = {
    401: "wants a login",
    404: "it is not there",
    429: "allows no more for now",
    503: "the registry fails",
    "cut": "what came is not the whole",
}


def test_what_a_registry_that_fails_means(on_engine, locked, faulty):
    lead_to(locked, faulty.address)
    image = forget(on_engine, locked)
    for fault, told in FAULTS.items():
        if on_engine.name == "podman" and fault not in (401, 404):
            continue  # podman tries these again for a minute
        faulty.fault = fault
        with pytest.raises(PodiumError) as error:
            pull.pull(locked, first_plan(locked))
        assert told in error.value.found
        assert not store.holds(on_engine.name, image)
    faulty.fault = None
    assert pull.pull(locked, first_plan(locked)).reference == image.reference


CLOSED = {"org": "tests", "division": "closed", "round": "3.1.0", "status": "onprem"}


def test_a_base_by_digest_is_built_on_in_the_closed_division(on_engine, registry):
    """The base goes to a registry first: only there it has a digest."""
    config = on_engine.config(images={"registry": f"{registry}/podium"})
    assert cli.main(["build", "--offline", "--config", str(config.path)]) == 0
    base = push.push(config, first_plan(config)).digest
    closed = on_engine.config(submission=CLOSED, images={"base": base})
    image = build.build(closed, first_plan(closed))
    assert image.base == base and image.arguments["BASE"] == base


def test_an_image_that_somebody_else_built_is_taken_by_its_digest(on_engine, locked):
    image = forget(on_engine, locked)
    result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": "good"}
    theirs = {"results": [{**result, "image": image.digest}]}
    config = on_engine.config(submission=CLOSED, **theirs)
    taken = build.build(config, first_plan(config))
    assert (taken.reference, taken.digest, taken.base) == (image.reference, image.digest, image.digest)
    assert build.build(config, first_plan(config)) == taken
    tagged = on_engine.config(submission=CLOSED, **{**theirs, "results": [{**result, "image": "example.org/them:1"}]})
    with pytest.raises(BadInput, match="a tag alone"):
        build.build(tagged, first_plan(tagged))


@pytest.mark.parametrize(("fault", "told"), [(401, "wants a login"), (404, "it is not there")])
def test_a_base_that_is_private_or_gone(on_engine, faulty, fault, told):
    faulty.fault = fault
    config = on_engine.config(images={"base": f"{faulty.address}/podium/base:1"})
    with pytest.raises(PodiumError) as error:
        build.build(config, first_plan(config))
    assert told in error.value.found
    assert not plan.image_file(config, first_plan(config)).exists()


def test_a_registry_that_is_not_there_is_said_to_be(on_engine):
    config = on_engine.config(images={"registry": "127.0.0.1:9/podium"})
    assert cli.main(["build", "--offline", "--config", str(config.path)]) == 0
    with pytest.raises(BadEnvironment) as error:
        push.push(config, first_plan(config))
    assert "cannot be reached" in error.value.found


def test_a_file_for_clusters_holds_what_a_run_needs(on_engine, locked, ordinary):
    """squashfs as enroot takes it, run by charliecloud: a container runtime without any right, as enroot is."""
    for program in ("mksquashfs", "unsquashfs", "ch-run"):
        if subprocess.run(["which", program], capture_output=True, check=False).returncode != 0:
            absent(program, "Debian: apt-get install squashfs-tools charliecloud")
    image = export.export(locked, first_plan(locked), "sqsh")
    before = Path(image.exports["sqsh"].path).stat()
    export.export(locked, first_plan(locked), "sqsh")
    assert Path(image.exports["sqsh"].path).stat() == before, "made once"
    root = ordinary.home / "image"
    output("unsquashfs", "-quiet", "-no-progress", "-dest", root, image.exports["sqsh"].path)
    os.chown(ordinary.home, ordinary.uid, ordinary.gid)
    environment = (root / "etc" / "environment").read_text().splitlines()
    assert "HOME=/tmp" in environment
    (ordinary.home / "logs").mkdir()
    os.chown(ordinary.home / "logs", ordinary.uid, ordinary.gid)
    told = {"LOGDIR": "/mnt/0", "SEED": "7", "MLPERF_SUBMISSION_ORG": "tests", "MLPERF_DIVISION": "open"}
    told |= {"MLPERF_STATUS": "research", "MLPERF_SUBMISSION_PLATFORM": "host"}
    run = engines.Run(image, "good", told)
    inside = ["env", f"--chdir={run.folder}", *environment, *engines.start(run)]
    ordinary.run("ch-run", f"--bind={ordinary.home}/logs:/mnt/0", root, "--", *inside)
    log = ordinary.home / "logs" / "mllog.txt"
    assert '"key": "run_stop"' in log.read_text() and log.stat().st_uid == ordinary.uid


def test_a_file_for_clusters_is_the_same_read_in_the_store_or_as_a_tar(on_engine, locked, monkeypatch):
    def listed() -> set[str]:
        """Mode, size, time and name; a folder's size is squashfs' own, and a tar knows no root."""
        made = Path(export.export(locked, first_plan(locked), "sqsh").exports["sqsh"].path)
        lines = output("unsquashfs", "-lln", made).splitlines()[1:]
        made.unlink()
        lines = [re.sub(r"^(d\S+ \S+) +\d+", r"\1", line) for line in lines]
        return {line for line in lines if not line.endswith("/etc/environment")}  # written by each export

    engine = engines.of(on_engine.name)
    assert engine.mounted("podium-tests-none", Path("/")) is None or on_engine.name == "podman"
    seen = listed()
    for refused in (None, ["false"]):
        monkeypatch.setattr(engine, "mounted", lambda _container, _folder, refused=refused: refused)
        assert sorted(listed() ^ seen) == [] and len(seen) > 1000
    folder = plan.image_file(locked, first_plan(locked)).parent
    assert not [path for path in folder.iterdir() if path.name.startswith((".export-", ".new."))]
    assert "podium-export" not in on_engine.client("ps", "--all", "--format={{.Names}}")
    assert str(folder) not in Path("/proc/self/mounts").read_text()


def test_podman_without_root_gives_what_it_writes_to_the_caller(
    ordinary, base_archive, podman_environment, monkeypatch
):
    archive = ordinary.home / "base.tar"
    archive.write_bytes(base_archive.read_bytes())
    ordinary.run("podman", "import", archive, "localhost/podium-tests/base")
    monkeypatch.setattr(request, "caller", lambda: (ordinary.uid, ordinary.gid))
    logs = ordinary.home / "logs"
    logs.mkdir()
    os.chown(logs, ordinary.uid, ordinary.gid)
    image = lock.Image("podman", "", "", "", "", None, False, (), {}, {}, id="localhost/podium-tests/base", workdir="/")
    ordinary.run("podman", "create", "--name=podium-tests-seen", image.id, "true")
    (ordinary.home / "seen").mkdir()
    seen = engines.of("podman").mounted("podium-tests-seen", ordinary.home / "seen")
    assert "usr" in ordinary.run(*seen, "ls", ordinary.home / "seen").split()
    assert not list((ordinary.home / "seen").iterdir()), "seen by that command alone"
    ordinary.run("podman", "rm", "--force", "podium-tests-seen")
    for network in (True, False):
        run = engines.Run(
            image=image,
            config=None,
            environment={"WHO": "me"},
            mounts=(engines.Mount(logs, "/logs", read_only=False),),
            name=f"podium-tests-rootless-{network}",
            words=("bash", "-c", 'echo "$WHO $(id -u)" >/logs/told; echo x >/planted'),
            network=network,
        )
        told = ordinary.run(*engines.of("podman").command(run), status=1)
        assert "Read-only file system" in told
        assert (logs / "told").read_text() == f"me {ordinary.uid}\n"
        assert (logs / "told").stat().st_uid == ordinary.uid
        (logs / "told").unlink()
    assert ordinary.run("podman", "ps", "--all", "--quiet").strip() == ""
