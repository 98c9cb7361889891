"""`podium unpack`: an archive, encrypted or not, back to the tree that was packed.

Hashes beside it are held to it first. The tree appears when it is complete, and never over one that is there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from podium import files
from podium.errors import BadInput
from podium.package import seal


def unpack(archive: Path, to: Path, secret: str = "") -> list[Path]:
    """Unpack into `to`; returns the folders that it held. Raises BadInput for an archive that is not whole, does not
    open, holds anything but plain files and folders below itself, or whose folder is there already."""
    if not archive.is_file():
        raise BadInput(f"no archive {archive}", "a file", "nothing", "podium archive")
    _check_hashes(archive)
    place = to / f".{archive.name}.unpacked"
    with files.replacing(place) as fresh:
        with _stream(archive, secret) as stream:
            _extract(archive, stream, fresh)
        folders = sorted(fresh.iterdir())
        if taken := [to / folder.name for folder in folders if (to / folder.name).exists()]:
            raise BadInput(
                f"{taken[0]} is there already", "nothing where the tree goes", "a folder", "unpack --to another folder"
            )
        for folder in folders:
            folder.rename(to / folder.name)
    place.rmdir()
    return [to / folder.name for folder in folders]


def _check_hashes(archive: Path) -> None:
    """sha1 and sha256 files beside the archive, as `sha1sum` writes them, under either name that is in use."""
    for algorithm in ("sha1", "sha256"):
        stem = archive.name.removesuffix(".tar.gz")
        for path in (archive.with_name(f"{archive.name}.{algorithm}"), archive.with_name(f"{stem}.{algorithm}")):
            if not path.is_file():
                continue
            expected = path.read_text(encoding="utf-8").split()[0]
            if (found := files.hash_file(archive, algorithm)) != expected:
                raise BadInput(
                    f"{archive} is not what was archived",
                    f"{algorithm} {expected} ({path.name})",
                    found,
                    "fetch it again",
                )


@contextlib.contextmanager
def _stream(archive: Path, secret: str) -> Iterator[IO[bytes]]:
    if seal.is_encrypted(archive):
        with seal.decrypted(archive, secret) as stream:
            yield stream
    else:
        with archive.open("rb") as stream:
            yield stream


def _extract(archive: Path, stream: IO[bytes], folder: Path) -> None:
    try:
        with tarfile.open(fileobj=stream, mode="r|gz") as tar:
            tar.extractall(folder, filter="data")
        while stream.read(1 << 20):  # what pads the end, so that a stream through openssl ends well
            pass
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadInput(
            f"{archive} cannot be unpacked",
            "a tar.gz of files and folders",
            f"{type(error).__name__}: {error}",
            "fetch it again",
        ) from error


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", type=Path)
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to (default: here)")
    parser.add_argument("--password-file", type=Path, metavar="FILE", help=f"of an encrypted one (or {seal.VARIABLE})")


def main(args: argparse.Namespace) -> int:
    """`podium unpack ARCHIVE`."""
    encrypted = args.archive.is_file() and seal.is_encrypted(args.archive)
    secret = seal.password(args.password_file) if encrypted else ""
    folders = unpack(args.archive, args.to, secret)
    if args.json:
        print(json.dumps({"folders": [str(folder) for folder in folders]}))
    else:
        print(f"unpack: {', '.join(map(str, folders))}")
    return 0
