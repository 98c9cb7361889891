"""Foreign code shut in: an own root with only what is named, no network, no environment of ours, limits.

bubblewrap does it where it is installed; else util-linux's unshare, with an own root by pivot_root. Where neither works
foreign code is not run at all: there is no weaker way.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from podium.errors import BadEnvironment

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
ETC = ("alternatives", "ld.so.cache", "os-release")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES = ("null", "zero", "random", "urandom")
KEPT = frozenset(("nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"))


@dataclass(frozen=True)
class Inside:
    """What foreign code is given: folders it may read and write as (here, there), an environment, a working folder.

    `seconds` and `megabytes` bound the time it runs and each file that it writes; None leaves them free.
    """

    command: tuple[str, ...]
    workdir: str = "/"
    read: tuple[tuple[str, str], ...] = ()
    write: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    seconds: float | None = None
    megabytes: int | None = None


def bwrap(inside: Inside) -> list[str]:
    """The bubblewrap command line."""
    line = ["bwrap", "--unshare-all", *(["--share-net"] if inside.network else []), "--die-with-parent"]
    line += ["--new-session", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for name, value in _environment(inside).items():
        line += ["--setenv", name, value]
    for mode, source, target in _binds(inside):
        if mode == "link":
            line += ["--symlink", str(Path(source).readlink()), target]
        else:
            line += ["--bind" if mode == "rw" else "--ro-bind", source, target]
    return [*line, "--chdir", inside.workdir, "--", *_limited(inside)]


def unshare(inside: Inside, root: str) -> list[str]:
    """The same by util-linux; `root` is an empty folder that is used as the place of the new root."""
    line = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
    line += [] if inside.network else ["--net"]
    words = [f"{name}={value}" for name, value in _environment(inside).items()]
    bare = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    return [*line, "sh", "-c", _enter(inside, root), "sandbox", *bare, "env", "-i", *words, *_limited(inside)]


def _enter(inside: Inside, root: str) -> str:
    """The shell script that makes the root and goes there; the command is what follows it."""
    folders, empty, links, mounts = [f"{root}/{name}" for name in ("proc", "dev", "tmp", ".old")], [], [], []
    for mode, source, target in _binds(inside):
        there = root + target
        if mode == "link":
            links.append(["ln", "-s", str(Path(source).readlink()), there])
            continue
        folder = Path(source).is_dir()
        folders.append(there if folder else str(Path(there).parent))
        empty += [] if folder else [there]
        mounts.append(["mount", "--bind", source, there])
        if mode == "ro":
            mounts.append(["mount", "-o", ",".join(("remount", "bind", "ro", *_flags(source))), there])
    devices = [["mount", "--bind", f"/dev/{name}", f"{root}/dev/{name}"] for name in DEVICES]
    lines = [
        ["mkdir", "-p", root],
        ["mount", "-t", "tmpfs", "-o", "mode=755", "podium", root],
        ["mkdir", "-p", *folders],
        ["chmod", "1777", f"{root}/tmp"],
        ["touch", *empty, *(f"{root}/dev/{name}" for name in DEVICES)],
        *devices,
        ["ln", "-s", "/proc/self/fd", f"{root}/dev/fd"],
        *links,
        *mounts,
        ["mount", "-t", "proc", "proc", f"{root}/proc"],
        ["cd", root],
        ["pivot_root", ".", ".old"],
        ["umount", "-l", ".old"],
        ["rmdir", ".old"],
        ["cd", inside.workdir],
    ]
    return "set -eu\n" + "\n".join(shlex.join(line) for line in lines) + '\nexec "$@"\n'


def _flags(path: str) -> list[str]:
    """The flags of a path's file system: in a user namespace a remount must keep them (mount_namespaces(7))."""
    return sorted(KEPT & set(_mounts(Path(path).stat().st_dev)))


@cache
def _mounts(device: int) -> tuple[str, ...]:
    place = f"{os.major(device)}:{os.minor(device)}"
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    return next((tuple(words[5].split(",")) for words in reversed(lines) if words[2] == place), ())


@cache
def way() -> str:
    """bwrap or unshare: the first that works here; raises BadEnvironment where none does."""
    for name in ("bwrap", "unshare"):
        if shutil.which(name) and _run(name, Inside(("true",), seconds=20), None).returncode == 0:
            return name
    raise BadEnvironment(
        "nothing on this machine can shut foreign code in",
        "bubblewrap, or user namespaces for util-linux's unshare",
        "neither works",
        "apt install bubblewrap (or dnf); sysctl kernel.unprivileged_userns_clone user.max_user_namespaces",
    )


def line(inside: Inside, root: str) -> list[str]:
    """The command line here; `root` is a folder that unshare may mount over, made where it is not there."""
    return bwrap(inside) if way() == "bwrap" else unshare(inside, root)


def run(inside: Inside, output: Path) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end; standard output goes to the file `output`, errors to `<output>.err`.

    The return code is 124 where it took longer than its seconds. Raises BadEnvironment where nothing can shut it in.
    """
    return _run(way(), inside, output)


def _run(name: str, inside: Inside, output: Path | None) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory(prefix="podium-root-") as root:
        words = bwrap(inside) if name == "bwrap" else unshare(inside, root)
        out = output.open("wb") if output else subprocess.DEVNULL
        err = output.with_name(output.name + ".err").open("wb") if output else subprocess.DEVNULL
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(inside.seconds)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        finally:
            if output:
                out.close()
                err.close()
    return subprocess.CompletedProcess(words, code)


def _environment(inside: Inside) -> dict[str, str]:
    return {"PATH": PATH, "HOME": "/tmp", "LANG": "C.UTF-8", **inside.environment}


def _binds(inside: Inside) -> list[tuple[str, str, str]]:
    """(mode, here, there): the system's programs, then what is given, outer folders before inner ones."""
    system = [("link" if Path(path).is_symlink() else "ro", path, path) for path in SYSTEM if Path(path).exists()]
    system += [("ro", f"/etc/{name}", f"/etc/{name}") for name in ETC if Path(f"/etc/{name}").exists()]
    given = [("ro", *pair) for pair in inside.read] + [("rw", *pair) for pair in inside.write]
    return system + sorted(given, key=lambda bind: bind[2].count("/"))


def _limited(inside: Inside) -> list[str]:
    if inside.megabytes is None:
        return list(inside.command)
    return ["prlimit", f"--fsize={inside.megabytes << 20}", "--core=0", *inside.command]
