"""Shards one behind the other in one .json.gz, which is what `cat` makes of them, and the first documents of others.

Source: mlcommons/training@aa344c7f, small_llm_pretraining/nemo/utils/consolidate_data.sh. There a missing shard is a
warning and a torn one is merged; here each is read to its checksum, and shards go side by side.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from podium import files
from podium.data.c4 import shards
from podium.data.c4.shards import Shard, Source
from podium.errors import BadInput

WORK = "work"  # folder of which shards are done, and of those that were cut


def train_path(folder: Path, part: int | str) -> Path:
    """The file of one part."""
    return folder / f"c4-train.en_{part}.json.gz"


def validation_path(folder: Path, count: int) -> Path:
    """The file of so many documents of the validation set."""
    return folder / f"c4-validation-{count}-samples.en.json.gz"


def cut(path: Path, to: Path, take: int) -> None:
    """Write a shard with only the first documents of another, which is read no further, of the same name, into `to`."""
    if not (to / path.name).exists():
        _pack(to / path.name, islice(shards.documents(path), take))


def place(shard: Shard, start: int, to: Path) -> int:
    """Copy a shard to its place in its part, and return how many documents it has; only that where it is noted."""
    note = to / WORK / f"{shard.path.name}.json"
    if note.exists():
        return files.read_json(note)["documents"]
    count = sum(1 for _ in shards.documents(shard.path))
    path = train_path(to, shard.part)
    with files.explained(path):
        path.touch()
        with shard.path.open("rb") as source, path.open("r+b") as file:
            file.seek(start)
            shutil.copyfileobj(source, file, files.CHUNK)
            file.flush()
            os.fsync(file.fileno())
    files.write_json(note, {"documents": count})
    return count


def first(paths: Sequence[Path], count: int, to: Path) -> None:
    """Write the first `count` documents of the validation set; raises BadInput where it has fewer."""
    path = validation_path(to, count)
    if path.exists():
        return
    _pack(path, _first(paths, count))


def _first(paths: Sequence[Path], count: int) -> Iterator[bytes]:
    """The first `count` documents of shards, each of which is read to its checksum."""
    number = 0
    for path in paths:
        for line in shards.documents(path):
            number += 1
            if number <= count:
                yield line
        if number >= count:
            return
    raise BadInput(f"{paths[0].parent} has a short validation set", f"{count} documents", f"{number}", shards.NEXT)


def finish(found: Source, to: Path) -> None:
    """Cut parts to their length, which an earlier try may have passed."""
    ends = {one.part: start + one.path.stat().st_size for one, start in found.places()}
    for part, size in ends.items():
        with train_path(to, part).open("ab") as file:
            file.truncate(size)


def there(to: Path) -> int:
    """Bytes of parts that an earlier try has written."""
    return sum(path.stat().st_blocks * 512 for path in to.glob("c4-train.*"))


def _pack(path: Path, lines: Iterable[bytes]) -> None:
    """Write lines as .json.gz without a name and time in it; zlib, as the bytes of isal depend on the processor."""
    with files.writing(path) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.writelines(lines)
