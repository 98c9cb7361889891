"""A Docker daemon: the one that answers, or one of these tests' own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from podium.errors import BadEnvironment
from podium.images.engines import docker as engine
from services.service import absent, output

Docker = Callable[..., str]


@pytest.fixture(scope="session")
def docker_environment() -> Iterator[dict[str, str]]:
    """What leads a client to the Docker daemon that answers, or to one that is started for these tests."""
    program = _client()
    with contextlib.ExitStack() as stack:
        environment = {"DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
        if subprocess.run([program, "info"], capture_output=True, check=False).returncode != 0:
            environment["DOCKER_HOST"] = stack.enter_context(daemon(program))
        yield environment


@pytest.fixture(scope="session")
def docker(docker_environment: dict[str, str]) -> Docker:
    """Docker's command line."""
    program = _client()

    def run(*words: str | Path, status: int = 0) -> str:
        return output(program, *words, env=os.environ | docker_environment, status=status)

    return run


def _client() -> str:
    try:
        return engine.builder()
    except BadEnvironment as error:
        absent("docker", str(error))


@contextlib.contextmanager
def daemon(program: str) -> Iterator[str]:
    """Start dockerd with a state of its own; gives its address. It touches no network device and no firewall rule."""
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        absent("docker", "no daemon answers, and starting one takes dockerd and root")
    with tempfile.TemporaryDirectory(prefix="podium-docker-") as place, _in_memory(place):
        address = f"unix://{place}/socket"
        words = ["dockerd", "--host", address, "--pidfile", f"{place}/pid", "--data-root", f"{place}/data"]
        words += [
            "--exec-root",
            f"{place}/exec",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--max-download-attempts=1",
        ]
        log = Path(place) / "log"
        with log.open("wb") as writer:
            process = subprocess.Popen(words, stdout=writer, stderr=writer, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while subprocess.run([program, "--host", address, "info"], capture_output=True, check=False).returncode:
                if process.poll() is not None or time.monotonic() > deadline:
                    absent("docker", "dockerd does not start:\n" + log.read_text(errors="replace")[-2000:])
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=60)
            # What a container in the host's network leaves mounted.
            subprocess.run(["umount", f"{place}/exec/netns/default"], capture_output=True, check=False)


@contextlib.contextmanager
def _in_memory(place: str) -> Iterator[None]:
    """A tmpfs at `place`: some disks take longer to forget the 30,000 files of an image than to write them."""
    output("mount", "-t", "tmpfs", "-o", "size=8g,mode=700", "podium-tests", place)
    try:
        yield
    finally:
        # With the network namespace that dockerd mounts in it.
        output("umount", "--recursive", place)
