"""The images of one archive that have a box of MLPerf's classes, as files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from isal import igzip, isal_zlib

from podium import files
from podium.data.formats import jpeg
from podium.data.openimages import boxes
from podium.data.openimages.source import NEXT, Archive
from podium.errors import BadInput

SUFFIX = ".jpg"


def sizes_path(work: Path, archive: Archive) -> Path:
    """Where the width and height of each image of an archive are noted, by its id."""
    return work / "sizes" / f"{archive.name}.json"


def extract(archive: Archive, to: Path, work: Path, take: int) -> None:
    """Write the archive's images into `<to>/<split>/data`, then note their sizes; nothing where these are noted.

    With `take` only the first so many of them, by their ids. Raises BadInput for an archive that is torn, an image that
    is no JPEG, and images that have boxes but are not there.
    """
    noted = sizes_path(work, archive)
    if noted.exists():
        return
    wanted = sorted(boxes.read(boxes.path_of(work, archive.split, archive.digit)))
    missing = set(wanted[:take] if take else wanted)
    folder = to / archive.split / "data"
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, tuple[int, int]] = {}
    for image, content in images(archive.path):
        if image not in missing:
            if image in sizes:
                raise BadInput(f"{archive.path}: {image} is there twice", "each image once", "two of them", NEXT)
            continue
        try:
            head = jpeg.header(content)
        except jpeg.Undecodable as error:
            raise BadInput(f"{archive.path}: {image}{SUFFIX} is no image", "a JPEG", str(error), NEXT) from error
        sizes[image] = (head.width, head.height)
        missing.remove(image)
        path = folder / f"{image}{SUFFIX}"
        if not path.exists() or path.stat().st_size != len(content):  # so many files are not synced one by one
            with files.explained(path):
                path.write_bytes(content)
    if missing:
        found = f"{len(missing)} of {len(sizes) + len(missing)} missing, such as {min(missing)}"
        raise BadInput(f"{archive.path} is not complete", "every image that has a box", found, NEXT)
    files.write_json(noted, dict(sorted(sizes.items())))


def images(path: Path) -> Iterator[tuple[str, bytes]]:
    """Id and content of each image in an archive, in its order; raises BadInput for one that is torn."""
    try:
        with igzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as members:
            for member in members:
                name = PurePosixPath(member.name)
                if member.isfile() and name.suffix == SUFFIX:
                    yield name.stem, members.extractfile(member).read()
            while unpacked.read(files.CHUNK):  # to the checksum at the end
                pass
    except (tarfile.TarError, EOFError, igzip.BadGzipFile, isal_zlib.IsalError) as error:
        raise BadInput(f"{path} is torn", "a tar.gz that is whole", str(error), NEXT) from error
