"""A base image of this host's Debian packages, wheels, and one image built from them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.images import environment
from services.docker_service import Docker
from services.service import absent, output
from support import REPOSITORY

# The tests' own names: nothing of another owner is called so, and nothing else is ever removed.
BASE, IMAGE = "podium-tests/base", "podium-tests/resnet"
BASE_PACKAGES = ("base-files", "bash", "coreutils", "dash", "libstdc++6", "python3", "python3-venv")
UNWANTED = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/boot/", "/dev/", "/proc/", "/sys/")


@pytest.fixture(scope="session")
def base_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this host's own Debian packages as a tar: Python, and what it needs; nothing is downloaded."""
    if shutil.which("dpkg-query") is None or shutil.which("apt-cache") is None:
        absent("base image", "this host is no Debian")
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    write_base(archive)
    return archive


@pytest.fixture(scope="session")
def base(docker: Docker, base_archive: Path) -> Iterator[str]:
    """The base as an image of Docker's."""
    docker("import", base_archive, BASE)
    yield BASE
    docker("image", "rm", "--force", BASE)


def write_base(archive: Path) -> None:
    """The files of BASE_PACKAGES and of all that they depend on, as a tar for `docker import`."""
    closure = ["--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-enhances"]
    closure += ["--no-conflicts", "--no-breaks", "--no-replaces"]
    lines = output("apt-cache", "depends", *closure, *BASE_PACKAGES).splitlines()
    packages = sorted({line for line in lines if line[:1].isalnum()})
    answer = subprocess.run(["dpkg-query", "--listfiles", *packages], capture_output=True, text=True, check=False)
    known = subprocess.run(["dpkg-query", "--status", *packages], capture_output=True, text=True, check=False).stdout
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
        status = tarfile.TarInfo("var/lib/dpkg/status")  # what `dpkg-query` in the image lists
        status.size = len(known.encode())
        tar.addfile(status, io.BytesIO(known.encode()))
        for folder in ("dev", "home", "mnt/0", "proc", "sys", "tmp"):
            about = tarfile.TarInfo(folder)
            about.type, about.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(about)
        for name in ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"):  # mounted over by some engines
            tar.addfile(tarfile.TarInfo(name))


@pytest.fixture(scope="session")
def context() -> Iterator[Path]:
    """A copy of containers/ with every wheel of the requirements in wheels/: what an image is built from."""
    with tempfile.TemporaryDirectory(prefix="podium-context-") as place:
        folder = Path(place) / "containers"
        shutil.copytree(REPOSITORY / "containers", folder, symlinks=True)
        version = output("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        requirements = environment.read_requirements(folder / "resnet" / "requirements.txt")
        environment.download(requirements, folder / "wheels", cpu_only=True, python=version)
        yield folder


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
