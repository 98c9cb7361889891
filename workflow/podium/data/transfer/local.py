"""Files of a file system that is mounted here: file:PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from podium.data.transfer import PIECE, Again, Changed, Refused, Remote


def look(address: str) -> Remote:
    """Size and time of change of a file."""
    path = _path(address)
    if not path.is_file():
        raise Refused("no such file")
    facts = path.stat()
    return Remote(facts.st_size, ranges=True, tag=str(facts.st_mtime_ns))


def read(address: str, remote: Remote, start: int, stop: int) -> Iterator[bytes]:
    """Bytes `start` to before `stop`; raises Changed where the file was replaced or cut meanwhile."""
    try:
        file = _path(address).open("rb", buffering=0)
    except FileNotFoundError as error:
        raise Refused("no such file") from error
    except PermissionError as error:
        raise Refused("no permission to read it") from error
    with file:
        if str(os.fstat(file.fileno()).st_mtime_ns) != remote.tag:
            raise Changed("another time of change than at first")
        while start < stop:
            try:
                piece = os.pread(file.fileno(), min(PIECE, stop - start), start)
            except OSError as error:
                raise Again(error.strerror or str(error)) from error
            if not piece:
                raise Changed(f"it ends at byte {start}")
            yield piece
            start += len(piece)


def _path(address: str) -> Path:
    return Path(address.removeprefix("file:"))
