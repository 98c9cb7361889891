"""Real services: a Docker daemon, a base image of this host's Debian packages, wheels, one image built from them.

A service that is not to be had skips its tests and says why; with CI=true it fails them. What a fixture starts or
stores it ends and removes, by its own id and name alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from podium.images import build
from support import REPOSITORY

# The tests' own names: nothing of another owner is called so, and nothing else is ever removed.
BASE, IMAGE = "podium-tests/base", "podium-tests/resnet"
BASE_PACKAGES = ("base-files", "bash", "coreutils", "dash", "libstdc++6", "python3", "python3-venv")
UNWANTED = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/boot/", "/dev/", "/proc/", "/sys/")

Docker = Callable[..., str]


def absent(service: str, why: str) -> NoReturn:
    """Skip the test, or fail it where CI=true: there, every service must be."""
    told = f"{service}: {why}"
    pytest.fail(told) if os.environ.get("CI") == "true" else pytest.skip(told)


def output(*words: str | Path, env: dict[str, str] | None = None, status: int = 0) -> str:
    """What a command prints, standard output and error together; it must end with `status`."""
    answer = subprocess.run(
        list(map(str, words)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert answer.returncode == status, f"{words} ended with {answer.returncode}:\n{answer.stdout[-5000:]}"
    return answer.stdout


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """A client of the Docker daemon that answers, or of one that is started for these tests."""
    program = _client()
    with contextlib.ExitStack() as stack:
        environment = os.environ | {"DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
        if subprocess.run([program, "info"], capture_output=True, check=False).returncode != 0:
            environment["DOCKER_HOST"] = stack.enter_context(_daemon(program))

        def run(*words: str | Path, status: int = 0) -> str:
            return output(program, *words, env=environment, status=status)

        yield run


def _client() -> str:
    """A client that can build with BuildKit: with the buildx plugin, or old enough (below 23) to need none."""
    for program in filter(None, (shutil.which("docker"), shutil.which("docker", path="/usr/bin"))):
        buildx = subprocess.run([program, "buildx", "version"], capture_output=True, check=False).returncode == 0
        version = re.search(r"version (\d+)", output(program, "--version"))
        if buildx or int(version[1]) < 23:
            return program
    absent("docker", "no client that can build; Debian: apt-get install docker.io")


@contextlib.contextmanager
def _daemon(program: str) -> Iterator[str]:
    """Start dockerd with a state of its own; gives its address. It touches no network device and no firewall rule."""
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        absent("docker", "no daemon answers, and starting one takes dockerd and root")
    with tempfile.TemporaryDirectory(prefix="podium-docker-") as place, _in_memory(place):
        address = f"unix://{place}/socket"
        words = ["dockerd", "--host", address, "--pidfile", f"{place}/pid", "--data-root", f"{place}/data"]
        words += ["--exec-root", f"{place}/exec", "--bridge=none", "--iptables=false", "--ip6tables=false"]
        log = Path(place) / "log"
        with log.open("wb") as writer:
            daemon = subprocess.Popen(words, stdout=writer, stderr=writer, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while subprocess.run([program, "--host", address, "info"], capture_output=True, check=False).returncode:
                if daemon.poll() is not None or time.monotonic() > deadline:
                    absent("docker", "dockerd does not start:\n" + log.read_text(errors="replace")[-2000:])
                time.sleep(0.1)
            yield address
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)


@contextlib.contextmanager
def _in_memory(place: str) -> Iterator[None]:
    """A tmpfs at `place`: some disks take longer to forget the 30,000 files of an image than to write them."""
    output("mount", "-t", "tmpfs", "-o", "size=8g,mode=700", "podium-tests", place)
    try:
        yield
    finally:
        output("umount", place)


@pytest.fixture(scope="session")
def base(docker: Docker) -> Iterator[str]:
    """An image of the files of this host's own Debian packages: Python, and what it needs; nothing is downloaded."""
    if shutil.which("dpkg-query") is None or shutil.which("apt-cache") is None:
        absent("base image", "this host is no Debian")
    with tempfile.TemporaryDirectory(prefix="podium-base-") as place:
        archive = Path(place) / "base.tar"
        _write_base(archive)
        docker("import", archive, BASE)
    yield BASE
    docker("image", "rm", "--force", BASE)


def _write_base(archive: Path) -> None:
    """The files of BASE_PACKAGES and of all that they depend on, as a tar for `docker import`."""
    closure = ["--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-enhances"]
    closure += ["--no-conflicts", "--no-breaks", "--no-replaces"]
    lines = output("apt-cache", "depends", *closure, *BASE_PACKAGES).splitlines()
    packages = sorted({line for line in lines if line[:1].isalnum()})
    answer = subprocess.run(["dpkg-query", "--listfiles", *packages], capture_output=True, text=True, check=False)
    # With a merged /usr, dpkg lists /bin/x where the file is usr/bin/x behind the link bin.
    paths = {Path(name) for name in ("/bin", "/sbin", "/lib", "/lib64")}
    for line in answer.stdout.splitlines():
        if line.startswith("/") and not line.startswith(UNWANTED):
            path = Path(line)
            path = path.parent.resolve() / path.name
            if path.is_symlink() or path.is_file():
                paths.add(path)
    with tarfile.open(archive, "w") as tar:
        for path in sorted(paths):
            tar.add(path, str(path.relative_to("/")), recursive=False)
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)


@pytest.fixture(scope="session")
def context() -> Iterator[Path]:
    """A copy of containers/ with every wheel of the requirements in wheels/: what an image is built from."""
    with tempfile.TemporaryDirectory(prefix="podium-context-") as place:
        folder = Path(place) / "containers"
        shutil.copytree(REPOSITORY / "containers", folder, symlinks=True)
        _download(build.read_requirements(folder / "resnet" / "requirements.txt"), folder / "wheels")
        yield folder


def _download(requirements: tuple[str, ...], wheels: Path) -> None:
    """Wheels for the base's Python, from wherever pip is set up to find them; of PyTorch the CPU build."""
    version = output("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", wheels]
    pip += ["--only-binary=:all:", "--python-version", version, "--find-links", wheels]
    wheels.mkdir()
    if index := build.torch_index():
        torch = [line for line in requirements if line.startswith("torch==")]
        output(*pip, "--no-deps", "--index-url", index, *torch)
    output(*pip, *requirements)


@pytest.fixture(scope="session")
def build_words(base: str) -> list[str]:
    """What every build of these tests has in common: nothing comes from a network."""
    return ["build", "--network", "none", "--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1"]


@pytest.fixture(scope="session")
def image(docker: Docker, build_words: list[str], context: Path) -> Iterator[str]:
    """The image of resnet."""
    docker(
        *build_words,
        *("--build-arg", "COMMIT=0123456789abcdef"),
        *("--file", context / "resnet" / "Dockerfile"),
        *("--tag", IMAGE, context),
    )
    yield IMAGE
    docker("image", "rm", "--force", IMAGE)
