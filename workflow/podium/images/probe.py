"""`podium doctor --engines`: each engine runs a small image for real, in seconds, and nothing of it stays.

The image is bash and env of this very machine with the libraries that they need, so that nothing is downloaded.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from podium.images import engines, lock
from podium.images.engines import choose, request, store
from podium.images.lock import Image

LIMIT = 10  # seconds that an engine has for its self-test
# What a run needs: its environment, data to read, a folder to write to, the caller's rights, its status handed on.
_SCRIPT = """
read -r word < "$DATADIR/word"; [ "$word" = data ] || { echo "the mount is not read"; exit 2; }
echo "$UID" > "$LOGDIR/user" || { echo "the caller cannot write to its mount"; exit 2; }
if [ "$INSIDE" = container ] && echo x 2>/dev/null > /podium-probe; then echo "the root is not read-only"; exit 2; fi
exit 42
"""


@dataclass(frozen=True)
class Probe:
    """What an engine can do on this machine: `ok`, or why not; its version; how long the self-test took."""

    engine: str
    ok: bool
    told: str
    version: str = ""
    seconds: float = 0.0


def probe(name: str) -> Probe:
    """Let one engine run the small image: mounts, environment, user, read-only root and exit status."""
    found = engines.of(name).available()
    if not found.ok:
        return Probe(name, False, found.why)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="podium-probe-") as place, ExitStack() as undo:
        folder = Path(place)
        try:
            image = _image(name, folder, undo)
            told = _run(name, image, folder)
        except subprocess.TimeoutExpired:
            told = f"no answer within {LIMIT} s"
        except subprocess.CalledProcessError as error:
            told = _last(error.stderr or b"") or str(error)
    seconds = time.monotonic() - started
    good = "runs, reads and writes its mounts as the caller, hands on its status"
    return Probe(name, not told, told or good, found.version, seconds)


def _run(name: str, image: Image, folder: Path) -> str:
    """What went wrong, or nothing."""
    for part in ("in", "out"):
        (folder / part).mkdir()
    (folder / "in" / "word").write_text("data\n")
    run = engines.Run(
        image=image,
        config=None,
        environment={"DATADIR": "/data", "LOGDIR": "/logs", "INSIDE": "host" if name == "process" else "container"},
        mounts=(engines.Mount(folder / "in", "/data"), engines.Mount(folder / "out", "/logs", read_only=False)),
        name=engines.name(folder),
        words=("bash", "-c", _SCRIPT),
        stop_seconds=1,
    )
    try:
        answer = subprocess.run(engines.of(name).command(run), capture_output=True, timeout=LIMIT, check=False)
    finally:
        engines.end(name, run.name, 1)
    if answer.returncode != 42:
        return _last(answer.stdout + answer.stderr) or f"status {answer.returncode} instead of 42"
    owner = (folder / "out" / "user").stat().st_uid
    return "" if owner == request.caller()[0] else f"what a run writes belongs to user {owner}, not to the caller"


def _last(text: bytes) -> str:
    return "; ".join(text.decode(errors="replace").strip().splitlines()[-2:])


def _image(name: str, folder: Path, undo: ExitStack) -> Image:
    """The small image as an engine takes it; `undo` takes it away again."""
    blank = Image("", "", str(folder), "", "", None, False, (), {}, {}, workdir="/")
    if name == "process":
        return replace(blank, venv=sys.prefix)
    archive = folder / "root.tar"
    _write_root(archive)
    if name in choose.BUILDERS:
        tag = f"localhost/podium/{folder.name}:probe".lower()
        subprocess.run([name, "import", str(archive), tag], capture_output=True, timeout=LIMIT, check=True)
        undo.callback(subprocess.run, [name, "image", "rm", "--force", tag], capture_output=True, check=False)
        return replace(blank, id=(store.inspect(name, tag) or {"Id": tag})["Id"])
    root = folder / "root"
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="tar")
    if name == "apptainer":  # it runs a folder as well as a .sif
        return replace(blank, exports={"sif": lock.Export(str(root), 0, "")})
    squashed = folder / "root.sqsh"
    words = ["mksquashfs", str(root), str(squashed), "-all-root", "-quiet", "-no-progress"]
    subprocess.run(words, capture_output=True, timeout=LIMIT, check=True)
    return replace(blank, exports={"sqsh": lock.Export(str(squashed), 0, "")})


def _write_root(archive: Path) -> None:
    """bash and env with their libraries, and the folders that a run mounts: 6 MB or so."""
    members: dict[str, Path] = {}
    for program in ("bash", "env"):
        members[f"usr/bin/{program}"] = Path(shutil.which(program) or f"/usr/bin/{program}")
        # `libc.so.6 => /lib/… (0x…)`, and the loader itself, which has no arrow: ldd(1)
        told = request.output("ldd", str(members[f"usr/bin/{program}"]))
        members |= {library.lstrip("/"): Path(library) for library in re.findall(r"(/\S+) \(0x", told)}
    members["bin/sh"] = members["usr/bin/bash"]
    with tarfile.open(archive, "w") as tar:
        for folder in ("dev", "proc", "sys", "tmp", "data", "logs", "etc", "bin", "usr/bin"):
            about = tarfile.TarInfo(folder)
            about.type, about.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(about)
        for name, path in sorted(members.items()):
            tar.add(path.resolve(), name)
