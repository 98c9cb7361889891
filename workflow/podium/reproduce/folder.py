"""A foreign folder, looked at without trust: nothing is executed, no link is followed out of its tree, no file is read
that is longer than a script can be."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

LONGEST = 1 << 20  # bytes of a script, a config or a description; longer ones are cut
KEPT = 8192  # folders and texts that are kept: every script is looked at for several styles


@dataclass(frozen=True)
class Folder:
    """A folder of the tree at `root`; `path` is relative to it. Both stay as given, so that answers can be shown."""

    root: Path
    path: PurePosixPath

    @property
    def place(self) -> Path:
        return self.root / self.path

    @property
    def name(self) -> str:
        return self.path.name

    def at(self, *parts: str) -> Folder | None:
        """A folder beside, below or above this one; None where it is none, or lies outside the tree."""
        path = PurePosixPath(os.path.normpath(self.path.joinpath(*parts)))
        found = Folder(self.root, path)
        return found if path.parts[:1] != ("..",) and inside(self.root, found.place) and found.place.is_dir() else None

    def names(self) -> tuple[str, ...]:
        """Names of the files in plain order; links that leave the tree are left out."""
        return tuple(name for name in _names(self.place) if _is_file(self.root, self.place / name))

    def folders(self) -> tuple[Folder, ...]:
        """Folders below, in plain order; links are not followed at all, so that a walk ends."""
        below = (Folder(self.root, self.path / name) for name in _names(self.place))
        return tuple(item for item in below if item.place.is_dir() and not item.place.is_symlink())

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """Names of files that match one of the patterns."""
        return tuple(name for name in self.names() if any(fnmatch.fnmatchcase(name, item) for item in patterns))

    def text(self, name: str) -> str:
        """A file's text with plain line ends; empty where there is none."""
        path = self.place / name
        return _text(path) if inside(self.root, path) else ""

    def code(self, name: str) -> str:
        """A script's text without the lines that are comments."""
        return re.sub(r"(?m)^\s*#(?!!).*$", "", self.text(name))


def inside(root: Path, path: Path) -> bool:
    """Whether `path`, with every link followed, lies in the tree at `root`."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return False


def leaving(folder: Folder) -> list[str]:
    """The links below a folder that lead out of its tree, relative to it."""
    found = []
    for base, folders, names in os.walk(folder.place):
        for name in (*folders, *names):
            path = Path(base) / name
            if path.is_symlink() and not inside(folder.root, path):
                found.append(path.relative_to(folder.place).as_posix())
    return sorted(found)


def _is_file(root: Path, path: Path) -> bool:
    return path.is_file() and (not path.is_symlink() or inside(root, path))


def _names(place: Path) -> tuple[str, ...]:
    try:
        return _listed(place, place.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(KEPT)
def _listed(place: Path, changed: int) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in place.iterdir()))


def _text(path: Path) -> str:
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError:
        return ""


@lru_cache(KEPT)
def _read(path: Path, changed: int) -> str:
    with path.open("rb") as file:
        content = file.read(LONGEST)
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
