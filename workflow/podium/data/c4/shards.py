"""The shards of C4 as they are published, and the documents in them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from isal import igzip, isal_zlib

from podium import files
from podium.errors import BadInput

FORMS = {
    "shards": "c4-train.{00768…01023}-of-01024.json.gz and c4-validation.{00000…00007}-of-00008.json.gz, as fetched",
    "merged": "for tokens: the layout of that name, or what consolidate_data.sh of the reference makes",
}
PARTS, SHARDS, VALIDATION = 8, 1024, 8
EACH = SHARDS // PARTS  # shards of one part
NEXT = "podium fetch c4"
LONGEST = 1 << 26  # bytes of a line; the text of a page is far below
_TORN = (EOFError, igzip.BadGzipFile, isal_zlib.IsalError)


@dataclass(frozen=True)
class Shard:
    """A shard of the training set, and which of the eight parts it belongs to."""

    path: Path
    part: int


@dataclass(frozen=True)
class Source:
    """The training shards in their order, and those of the validation set."""

    train: list[Shard]
    validation: list[Path]

    @property
    def train_bytes(self) -> int:
        """What the parts together will have."""
        return sum(one.path.stat().st_size for one in self.train)

    def moved(self, folder: Path) -> Source:
        """The same with training shards of the same names in another folder."""
        return replace(self, train=[replace(one, path=folder / one.path.name) for one in self.train])

    def places(self) -> Iterator[tuple[Shard, int]]:
        """Each training shard, and at which byte of its part it begins."""
        sizes: dict[int, int] = {}
        for one in self.train:
            start = sizes.get(one.part, 0)
            sizes[one.part] = start + one.path.stat().st_size
            yield one, start


def find(folder: Path, parts: Sequence[int]) -> Source:
    """The shards in `folder` of these parts; raises BadInput that says how many are missing and names the first."""
    train = [
        Shard(folder / f"c4-train.{number:05}-of-{SHARDS:05}.json.gz", part)
        for part in parts
        for number in range(part * EACH, (part + 1) * EACH)
    ]
    validation = [folder / f"c4-validation.{number:05}-of-{VALIDATION:05}.json.gz" for number in range(VALIDATION)]
    wanted = [*(one.path for one in train), *validation]
    if missing := [path.name for path in wanted if not path.is_file()]:
        names = ", ".join(missing[:6])
        raise BadInput(
            f"{folder} is not complete", f"{len(wanted)} shards", f"{len(missing)} missing, such as {names}", NEXT
        )
    return Source(train, validation)


def documents(path: Path) -> Iterator[bytes]:
    """The lines of a shard, each checked to be a document, to the checksum at its end; raises as `read` does."""
    for line, _ in read(path):
        yield line


def read(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[bytes, str]]:
    """Each line and its text, to the checksum at the end; of a file, or of its members of gzip from `start` to `stop`.

    Raises BadInput for one that is torn or empty, and for a line that is no JSON object with a text, or has no end:
    merged, the next shard's first document would be on that line.
    """
    number = 0
    try:
        with _bytes(path, start, stop) as packed, igzip.open(packed) as file:
            while line := file.readline(LONGEST):
                number += 1
                try:
                    text = _text(line)
                except ValueError as error:
                    found = f"{error} in line {number}: {line[:60]!r}"
                    raise BadInput(
                        f"{path} holds something else than documents", "a JSON object a line", found, NEXT
                    ) from error
                yield line, text
    except _TORN as error:
        raise torn(path, error) from error
    if not number:
        raise BadInput(f"{path} is empty", "documents", "none", NEXT)


def torn(path: Path, error: object) -> BadInput:
    """What is said of a file that gzip cannot read to its end."""
    return BadInput(f"{path} is torn", "a json.gz that is whole", str(error), NEXT)


def _text(line: bytes) -> str:
    """The text of a document; raises ValueError that says what keeps a line from being one."""
    if not line.endswith(b"\n"):
        raise ValueError("no end of line")
    try:
        document = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON ({error})") from error
    text = document.get("text") if isinstance(document, dict) else None
    if not isinstance(text, str):
        raise ValueError("no text")
    return text


def _bytes(path: Path, start: int, stop: int | None) -> IO[bytes]:
    file = path.open("rb")
    if not start and stop is None:
        return file
    return io.BufferedReader(_Span(file, start, stop), files.CHUNK)


class _Span(io.RawIOBase):
    """The bytes of a file from `start` to `stop`, as a file."""

    def __init__(self, file: IO[bytes], start: int, stop: int | None) -> None:
        self._file, self._left = file, (os.fstat(file.fileno()).st_size if stop is None else stop) - start
        file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        count = self._file.readinto(memoryview(buffer)[: self._left])
        self._left -= count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
