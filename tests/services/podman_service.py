"""Podman with a store of these tests' own, as root and as an ordinary user without any right."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.service import absent, output

USER = "games"  # a user of every Debian, whose files nobody misses


@pytest.fixture(scope="session")
def podman_environment() -> Iterator[dict[str, str]]:
    """What leads podman to a store of these tests' own."""
    with own_store() as environment:
        yield environment


@contextlib.contextmanager
def own_store() -> Iterator[dict[str, str]]:
    """What puts podman's store, its state and its limits into a folder of its own; removed with all images."""
    if shutil.which("podman") is None:
        absent("podman", "not on the PATH; Debian: apt-get install podman catatonit")
    if os.geteuid() != 0:
        absent("podman", "these tests take root")
    with tempfile.TemporaryDirectory(prefix="podium-podman-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        # Everything that `podman system reset` takes away lies here, and nothing of the machine's own podman.
        own = f'tmp_dir = "{place}/libpod"\nvolume_path = "{place}/volumes"\n'
        own += f'[network]\nnetwork_config_dir = "{place}/networks"\n'
        (folder / "containers.conf").write_text(_limits() + own)
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/store"\nrunroot = "{place}/run"\n'
        )
        environment = {
            "CONTAINERS_CONF": f"{place}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{place}/storage.conf",
        }
        yield environment
        output("podman", "system", "reset", "--force", env=os.environ | environment)


def _limits() -> str:
    """Root of a small virtual machine may lack CAP_SYS_RESOURCE: limits are then what they already are."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = min(32768, resource.getrlimit(resource.RLIMIT_NPROC)[1]) % 2**32
    return (
        f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    )


Podman = Callable[..., str]


@pytest.fixture(scope="session")
def podman(podman_environment: dict[str, str]) -> Podman:
    """Podman's command line as root."""

    def run(*words: str | Path, status: int = 0) -> str:
        return output("podman", *words, env=os.environ | podman_environment, status=status)

    return run


@dataclass(frozen=True)
class Ordinary:
    """An ordinary user with a home of its own: `run` a command as that user, who has subordinate ids here alone."""

    uid: int
    gid: int
    home: Path

    def run(self, *words: str | Path, status: int = 0) -> str:
        # /etc/subuid and /etc/subgid are replaced in a mount namespace: the machine's own stay as they are.
        script = 'mount --bind "$1" /etc/subuid && mount --bind "$1" /etc/subgid && shift && exec "$@"'
        drop = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "env", "-i", "-C", self.home]
        mine = [f"HOME={self.home}", f"USER={USER}", f"XDG_RUNTIME_DIR={self.home}/run", "PATH=/usr/bin:/bin:/usr/sbin"]
        mine += [f"CONTAINERS_CONF={self.home}/containers.conf"]
        namespace = ["unshare", "--mount", "bash", "-euc", script, "run", self.home / "subordinate"]
        return output(*namespace, *drop, *mine, *words, status=status)


@pytest.fixture
def ordinary() -> Iterator[Ordinary]:
    """An ordinary user; what it leaves running (podman's pause process) is ended with its home."""
    if os.geteuid() != 0 or shutil.which("newuidmap") is None:
        absent("rootless", "takes root to become another user, and newuidmap; Debian: apt-get install uidmap")
    uid, gid = (int(output("id", flag, USER)) for flag in ("-u", "-g"))
    with tempfile.TemporaryDirectory(prefix="podium-home-") as place:
        home = Path(place)
        (home / "run").mkdir(mode=0o700)
        (home / "containers.conf").write_text(_limits())
        (home / "subordinate").write_text(f"{USER}:200000:65536\n")
        subprocess.run(["chown", "-R", f"{uid}:{gid}", place], check=True)
        yield Ordinary(uid, gid, home)
        pause = home / "run" / "libpod" / "tmp" / "pause.pid"
        if pause.exists():
            os.kill(int(pause.read_text()), signal.SIGKILL)
