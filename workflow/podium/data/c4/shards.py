"""The shards of C4 as they are published, and the documents in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isal import igzip, isal_zlib

from podium.errors import BadInput

FORMS = {
    "shards": "c4-train.{00768…01023}-of-01024.json.gz and c4-validation.{00000…00007}-of-00008.json.gz, as fetched",
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
    """The lines of a shard, each checked to be a document, to the checksum at its end.

    Raises BadInput for one that is torn or empty, and for a line that is no JSON object with a text, or has no end:
    merged, the next shard's first document would be on that line.
    """
    number = 0
    try:
        with igzip.open(path) as file:
            while line := file.readline(LONGEST):
                number += 1
                if problem := wrong(line):
                    found = f"{problem} in line {number}: {line[:60]!r}"
                    raise BadInput(f"{path} holds something else than documents", "a JSON object a line", found, NEXT)
                yield line
    except _TORN as error:
        raise BadInput(f"{path} is torn", "a json.gz that is whole", str(error), NEXT) from error
    if not number:
        raise BadInput(f"{path} is empty", "documents", "none", NEXT)


def wrong(line: bytes) -> str:
    """What keeps a line from being a document; empty if nothing does."""
    if not line.endswith(b"\n"):
        return "no end of line"
    try:
        document = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        return f"no JSON ({error})"
    text = document.get("text") if isinstance(document, dict) else None
    return "" if isinstance(text, str) else "no text"
