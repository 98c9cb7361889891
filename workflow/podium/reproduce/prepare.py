"""What must be there before the first run: the copy of the code, the image, the programs that stand for one."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from podium import files
from podium.config import Config, System
from podium.errors import BadEnvironment, BadInput
from podium.images import environment
from podium.reproduce import drive, source_config
from podium.reproduce.folder import Folder, leaving
from podium.reproduce.plan import Plan

LARGEST = 4 << 30  # bytes of code that are copied
FILES = {  # engines whose image is a file: its name, and how it is made of an image in Docker's store
    "enroot": ("image.sqsh", ("enroot", "import", "--output", "{file}", "dockerd://{reference}")),
    "apptainer": ("image.sif", ("apptainer", "build", "{file}", "docker-daemon://{reference}")),
}


def code(tree: Path, made: Plan, at: Path) -> Folder:
    """Copy the code of the benchmark, without links that leave it and with plain line ends; its folder."""
    parts = Path(made.code).parts
    top = Path(*parts[: min(3, len(parts) - 1) or 1])
    size = sum(path.stat().st_size for path in (tree / top).rglob("*") if path.is_file() and not path.is_symlink())
    if size > LARGEST:
        expected = f"at most {LARGEST >> 30} GB of code"
        raise BadInput(f"{top} is too large", expected, f"{size / 1e9:.1f} GB", f"du -sh {tree / top}")
    sums = at.with_name(f"{at.name}.json")
    contents = _sums(tree / top)
    folder = Folder(at, PurePosixPath(Path(made.code).relative_to(top).as_posix()))
    if at.is_dir() and sums.exists() and files.read_json(sums) == contents:
        return folder  # runs may be going on in it
    files.need_space(at.parent, size, "the copy of their code")
    with files.replacing(at) as fresh:
        shutil.copytree(tree / top, fresh, symlinks=True, ignore=_special, dirs_exist_ok=True)
        for name in leaving(Folder(fresh, PurePosixPath())):
            (fresh / name).unlink()
    mended = Folder(tree, PurePosixPath(made.code))
    if made.config:
        source_config.copied(mended, made.config, folder.place)
    files.write_json(sums, contents)
    return folder


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices: nothing that code is made of."""
    places = {name: Path(folder, name) for name in names}
    return [name for name, path in places.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]


def _sums(folder: Path) -> dict[str, str]:
    """The sha256 of every regular file; links are told, never followed."""
    found = {}
    for name in files.walk(folder):
        path = folder / name
        if path.is_symlink():
            found[name.as_posix()] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name.as_posix()] = files.hash_file(path)
    return found


def fingerprint(made: Plan, folder: Folder) -> str:
    """What a run is made with, as a hash: the code, the config's exports, what is set after it, the image."""
    sums = files.read_json(folder.root.with_name(f"{folder.root.name}.json"))
    return files.hash_json((sums, made.exports, made.environment, made.image.reference, made.start))


def workdir(folder: Folder) -> str:
    """Where the image has the code: the last WORKDIR of its Dockerfile."""
    found = re.findall(r"(?mi)^\s*WORKDIR\s+(/\S*)", folder.text("Dockerfile"))
    return found[-1].rstrip("/") if found else "/workspace/code"


def programs(config: Config, system: System, made: Plan, folder: Folder) -> tuple[str, ...]:
    """A virtual environment for code that brings requirements but no container here, with the Python it is of."""
    if system.engine != "process" or "requirements.txt" not in folder.names():
        return ()
    requirements = environment.read_requirements(folder.place / "requirements.txt")
    if not requirements:
        return ()
    venv = environment.environment(config.root, requirements, cpu_only=system.gpus_per_node == 0)
    return (str(venv.absolute()), *drive.python())


def image(engine: str, made: Plan, tree: Path, area: Path) -> str:
    """Build or pull the image, and make a file of it where the engine wants one; by what the engine calls it.

    Raises BadEnvironment where a command fails.
    """
    reference = made.image.reference
    if engine == "process" or not reference:
        return reference
    client = "podman" if engine == "podman" else "docker"
    name, words = FILES.get(engine, ("", ()))
    file = area / name
    if name and file.exists():
        return str(file)
    asked = [client, "image", "inspect", reference]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        for command in made.image.commands(str(tree)):
            _do([client, *command[1:]], made)
    if not name:
        return reference
    _do([word.format(file=f"{file}.new", reference=reference) for word in words], made)
    file.with_name(f"{name}.new").rename(file)
    return str(file)


def _do(words: list[str], made: Plan) -> None:
    print(f"+ {shlex.join(words)}", file=sys.stderr, flush=True)
    if subprocess.run(words, stdout=2, check=False).returncode:  # standard output is the answer's
        thing = f"no image for {made.submitter}/{made.benchmark}"
        raise BadEnvironment(thing, made.image.reference, "the command failed", shlex.join(words))
