"""Files that are whole or absent: written to a temporary name beside the target, synced and renamed."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from podium.errors import BadEnvironment

CHUNK = 1 << 20
_UMASK = os.umask(0o077)  # it can only be read by setting it, which among threads would set it for good
os.umask(_UMASK)


@contextlib.contextmanager
def writing(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; on a clean exit sync it and rename it to `path`, else remove it.

    Raises BadEnvironment when the folder cannot be written or the disk is full.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, mode, **({} if "b" in mode else {"encoding": "utf-8"})) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_UMASK)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's "no" about `path` into an error that says what to do."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: ("free space on the file system", f"df -h {path.parent}"),
            errno.EDQUOT: ("quota left on the file system", f"quota -s; df -h {path.parent}"),
            errno.EACCES: ("permission to write", f"ls -ld {path.parent}"),
            errno.EPERM: ("permission to write", f"ls -ld {path.parent}"),
            errno.EROFS: ("a file system that can be written", f"findmnt --target {path.parent}"),
        }.get(error.errno)
        if advice is None:
            raise
        expected, command = advice
        raise BadEnvironment(f"cannot write {path}", expected, os.strerror(error.errno), command) from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    with writing(path, "w") as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with writing(path, "w") as file:
        file.write(text)


def read_json(path: Path) -> Any:
    """Read a JSON file; raises FileNotFoundError or json.JSONDecodeError."""
    return json.loads(path.read_text(encoding="utf-8"))


def now() -> str:
    """The time as records hold it: UTC, ISO 8601, milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hex digest of a file's content, read once in 1 MiB pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def hash_json(value: Any) -> str:
    """sha256 of `value` in canonical JSON: sorted keys, no spaces."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def walk(folder: Path) -> list[Path]:
    """Every file below `folder`, as paths relative to it, in sorted order; links are not followed."""
    found = []
    for base, folders, names in os.walk(folder):
        folders.sort()
        home = Path(base).relative_to(folder)
        found += [home / name for name in names]
    return sorted(found)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel releases it if this process dies. Says when it has to wait."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another podium, which holds {path}", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Build a folder anew beside `folder` and swap it in; on an error the old one stays untouched."""
    fresh, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    with explained(folder):
        if old.exists() and not folder.exists():
            old.rename(folder)  # a swap was cut between its two renames
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            yield fresh
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


def need_space(folder: Path, needed: int, what: str) -> None:
    """Raise BadEnvironment unless the file system of `folder` has `needed` bytes free."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise BadEnvironment(
            f"disk too small for {what}",
            f"{needed / 1e9:.2f} GB free at {folder}",
            f"{free / 1e9:.2f} GB free",
            "free space, or set `root` (or `data.root`) in the config to a larger file system",
        )
