"""A results tree wherever it lies: a folder is looked at where it is; of an archive or a git repository only the needed
parts are unpacked into a throw-away folder, and a name that would leave that folder refuses the whole."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from podium import files
from podium.errors import BadEnvironment, BadInput

REMOTE = re.compile(r"^(https?|git|ssh|file)://|^[\w.-]+@[\w.-]+:|\.git/?$")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")
LARGEST = 256 << 20  # bytes of one file that is unpacked: no script, config or log is as long
# No hooks, no filters, no passwords asked for, no transport that runs a program that the address names.
SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "filter.lfs.smudge=",
        "-c", "filter.lfs.required=false", "-c", "core.fsmonitor=false")  # fmt: skip


@contextlib.contextmanager
def opened(
    source: str, submitter: str | None = None, system: str | None = None, benchmark: str | None = None
) -> Iterator[Path]:
    """The folder of a results tree; gone at the end where it had to be unpacked.

    Of an archive or a repository only the named submitter, system and benchmark are brought. Raises BadInput for what
    is no tree or names files outside of itself, BadEnvironment where git cannot reach it.
    """
    path = Path(source)
    if path.is_dir() and not (path / "objects").is_dir():
        yield path
        return
    wanted = patterns(submitter, system, benchmark)
    name = Path(source.rstrip("/")).name
    name = re.sub(r"(\.git|\.tar(\.\w+)?|\.tgz|\.zip)$", "", name) or "tree"
    with tempfile.TemporaryDirectory(prefix="podium-source-") as scratch:
        root = Path(scratch) / name
        root.mkdir()
        if path.is_file() and source.endswith(ARCHIVES):
            _unpack(path, root, wanted)
        elif path.is_dir() or REMOTE.search(source):
            _git(source, Path(scratch), root, wanted)
        else:
            expected = "a folder, an archive (" + " ".join(ARCHIVES) + ") or a git repository"
            raise BadInput(f"no results tree at {source}", expected, "nothing of the kind", f"ls {source}")
        yield _top(root)


def patterns(submitter: str | None, system: str | None, benchmark: str | None) -> tuple[str, ...]:
    """The paths of a round that are needed: code of all benchmarks is small against the logs, so it comes whole."""
    who = submitter or "*"
    return (
        f"{who}/benchmark/*",
        f"{who}/benchmarks/*",
        f"{who}/systems/{system or '*'}.json",
        f"{who}/results/{system or '*'}/{benchmark or '*'}/*",
    )


def _wanted(name: str, wanted: Iterable[str]) -> bool:
    """Whether a path is among the wanted: as it is, without an archive's own folder, or as of one submitter alone."""
    ways = (name, name.partition("/")[2], f"./{name}")
    return any(fnmatch.fnmatchcase(way, item) for way in ways for item in wanted)


def _checked(name: str, source: str) -> PurePosixPath:
    """A member's path; raises BadInput where it is absolute or climbs out."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise BadInput(
            f"{source} is hostile or broken", "names below its own root", repr(name)[:200], "do not unpack it elsewhere"
        )
    return path


def _unpack(archive: Path, root: Path, wanted: tuple[str, ...]) -> None:
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                for item in packed.infolist():
                    path = _checked(item.filename, str(archive))
                    if not item.is_dir():
                        _put(root, path, item.file_size, wanted, lambda i=item: packed.open(i))
        else:
            with tarfile.open(archive) as packed:
                for item in packed:
                    path = _checked(item.name, str(archive))
                    if item.isfile():
                        _put(root, path, item.size, wanted, lambda i=item: packed.extractfile(i))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise BadInput(f"{archive} cannot be read", "an archive", str(error), f"file {archive}") from error


def _put(root: Path, path: PurePosixPath, size: int, wanted: tuple[str, ...], open_it) -> None:
    """Write one member; a longer one than any that is read keeps its size, without content."""
    if path.name == "" or not _wanted(path.as_posix(), wanted):
        return
    target = root / path
    with files.explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            if size > LARGEST:
                file.truncate(size)
                return
            with open_it() as reader:
                while piece := reader.read(files.CHUNK):
                    file.write(piece)


def _git(source: str, scratch: Path, root: Path, wanted: tuple[str, ...]) -> None:
    """Fetch the newest commit without contents, then the contents of the wanted paths in one go, and write those."""
    bare = Path(source) if Path(source).is_dir() else scratch / "git"
    if bare.parent == scratch:
        _run(["clone", "--bare", "--depth=1", "--filter=blob:none", "--", source, str(bare)], source)
    listed = _run(["-C", str(bare), "ls-tree", "-r", "-z", "--full-tree", "HEAD"], source)
    blobs: list[tuple[str, PurePosixPath]] = []
    for line in listed.decode("utf-8", "surrogateescape").split("\0"):
        facts, _, name = line.partition("\t")
        if name and facts.split()[1] == "blob" and _wanted(name, wanted):
            path = _checked(name, source)
            if not facts.startswith("120000"):  # links are not made: nothing that is needed is one
                blobs.append((facts.split()[2], path))
    if bare.parent == scratch and blobs:
        wants = "\n".join(dict.fromkeys(blob for blob, _ in blobs)).encode() + b"\n"
        _run(["-C", str(bare), "fetch", "--no-tags", "--no-write-fetch-head", "--stdin", "origin"], source, wants)
    _write(bare, blobs, root, source)


def _write(bare: Path, blobs: list[tuple[str, PurePosixPath]], root: Path, source: str) -> None:
    """The contents by `git cat-file --batch`; one that the repository lacks is left out, as a lost log is."""
    command = ["git", *SAFE, "-C", str(bare), "cat-file", "--batch"]
    environment = os.environ | {"GIT_NO_LAZY_FETCH": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        for blob, path in blobs:
            process.stdin.write(f"{blob}\n".encode())
            process.stdin.flush()
            words = process.stdout.readline().split()
            if words[1:] == [b"missing"] or len(words) < 3:
                continue
            size = int(words[2])
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                left = size
                while left:
                    piece = process.stdout.read(min(left, files.CHUNK))
                    if not piece:
                        raise BadEnvironment(
                            f"git stopped in {source}", f"{size} bytes of {path}", "fewer", "try again"
                        )
                    file.write(piece)
                    left -= len(piece)
            process.stdout.read(1)
        process.stdin.close()


def _run(words: list[str], source: str, given: bytes | None = None) -> bytes:
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    answer = subprocess.run(["git", *SAFE, *words], input=given, capture_output=True, env=environment, check=False)
    if answer.returncode:
        said = answer.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no answer"]
        raise BadEnvironment(
            f"git cannot read {source}", "a repository that can be reached", said[0], f"git ls-remote {source}"
        )
    return answer.stdout


def _top(root: Path) -> Path:
    """The tree itself: an archive often has one folder around it."""
    inner = list(root.iterdir())
    tree = {"results", "systems", "benchmarks", "benchmark"}
    around = len(inner) == 1 and inner[0].is_dir() and not tree & {path.name for path in inner[0].iterdir()}
    return inner[0] if around else root
