"""Where LibriSpeech comes from: archives or extracted trees, each subset seen as one stream of small files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from isal import igzip, isal_zlib

from podium.errors import BadInput

ARCHIVE = ".tar.gz"
AUDIO = ".flac"
TEXT = ".trans.txt"
TOP = "LibriSpeech"
TRAIN = "train-"
SUBSETS = ("dev-", "test-", TRAIN)
NEXT = "podium fetch librispeech"


@dataclass(frozen=True)
class Member:
    """One file of a chapter: its folder `<speaker>/<chapter>`, its name, its bytes or where they are."""

    folder: str
    name: str
    content: bytes | Path

    def read(self) -> bytes:
        """The bytes, from disk when they are not in memory yet."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content


@dataclass(frozen=True)
class Subset:
    """One subset, such as `dev-clean`: `<name>.tar.gz`, or a folder of speakers."""

    name: str
    path: Path

    @property
    def is_train(self) -> bool:
        """Whether its transcripts train the sentencepieces."""
        return self.name.startswith(TRAIN)

    def members(self) -> Iterator[Member]:
        """Every audio and transcript file in the order of the source; raises BadInput where an archive is broken."""
        return _tree(self.path) if self.path.is_dir() else _archive(self)


def subsets(source: Path) -> list[Subset]:
    """Every subset in `source`, sorted by name; one that is there in both forms is read from its archive.

    Raises BadInput when there is none.
    """
    found: dict[str, Path] = {}
    for folder in (source, source / TOP):
        found |= {path.name: path for path in folder.glob("*") if path.is_dir()}
    found |= {path.name.removesuffix(ARCHIVE): path for path in source.glob(f"*{ARCHIVE}")}
    names = sorted(name for name in found if name.startswith(SUBSETS))
    if not names:
        raise BadInput(
            f"no LibriSpeech in {source}",
            f"<subset>{ARCHIVE} or {TOP}/<subset>/, for example train-clean-100 and dev-clean",
            ", ".join(sorted(found)) or "nothing",
            NEXT,
        )
    return [Subset(name, found[name]) for name in names]


def _tree(top: Path) -> Iterator[Member]:
    for base, folders, names in os.walk(top):
        folders.sort()
        folder = Path(base)
        for name in sorted(names):
            if name.endswith((AUDIO, TEXT)):
                yield Member(folder.relative_to(top).as_posix(), name, folder / name)


def _archive(subset: Subset) -> Iterator[Member]:
    try:
        with igzip.open(subset.path) as file:
            for name, content in _files(file):
                path = PurePosixPath(name)
                if not name.endswith((AUDIO, TEXT)):
                    continue
                if path.parts[-4:-3] != (subset.name,) or ".." in path.parts:
                    raise BadInput(
                        f"{subset.path} holds another subset", f"{TOP}/{subset.name}/<speaker>/<chapter>", name, NEXT
                    )
                yield Member("/".join(path.parts[-3:-1]), path.name, content)
    except (EOFError, igzip.BadGzipFile, isal_zlib.IsalError, tarfile.HeaderError) as error:
        raise BadInput(
            f"{subset.path} is damaged", "a whole tar in gzip", str(error), f"rm {subset.path}; {NEXT}"
        ) from error


def _files(tar: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every regular file of a tar that can only be read forwards.

    `tarfile` itself takes a damaged header for the end of the archive; here it raises tarfile.HeaderError. What follows
    the end is read too, because the checksum of the gzip file stands behind it.
    """
    while (header := tar.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        padded = tar.read(-(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
        if len(padded) < entry.size:
            raise EOFError(f"{entry.name} has {len(padded)} of {entry.size} bytes")
        if entry.isreg():
            yield entry.name, padded[: entry.size]
    while tar.read(1 << 20):
        pass
