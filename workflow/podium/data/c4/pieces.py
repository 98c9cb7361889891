"""What is tokenized by itself: a shard as it is published, or whole shards within a file that they were merged into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from isal import isal_zlib

from podium import files
from podium.data.c4 import merge, shards
from podium.errors import BadInput

AT_LEAST = 64 << 20  # bytes of a piece of a merged file
_half = re.compile("[\ud800-\udfff]")
_GZIP, _MOST = 31, 8 << 20  # window bits of zlib for gzip; bytes of text in one go


@dataclass(frozen=True)
class Piece:
    """The documents of a .json.gz, or of its members from byte `start` to `stop`; only the first ones if `take`."""

    path: Path
    start: int = 0
    stop: int | None = None
    take: int = 0

    @property
    def name(self) -> str:
        """What its files are called while others are made; it differs for each piece."""
        return f"{self.path.name}.{self.start}"

    def texts(self) -> Iterator[str]:
        """The text of each document, each checked as `shards.read` does, and to be one that can be tokenized."""
        for line, text in islice(shards.read(self.path, self.start, self.stop), self.take or None):
            if not text.isascii() and _half.search(text):
                found = f"half of a surrogate pair in {line[:60]!r}"
                raise BadInput(f"{self.path} holds something else than text", "Unicode", found, shards.NEXT)
            yield text


@dataclass(frozen=True)
class Output:
    """A pair of token files below the target, and the pieces that it is made of, in their order."""

    name: str
    pieces: tuple[Piece, ...]


def is_merged(folder: Path) -> bool:
    """Whether shards were merged there."""
    return any(folder.glob("c4-train.en_*.json.gz"))


def outputs(folder: Path, parts: Sequence[int], validation: int, take: int, work: Path) -> list[Output]:
    """What is to be made of a folder of shards or of merged ones, the validation set last.

    Raises BadInput for what is missing or torn. Where members begin is noted in `work`, and there the first documents
    of the validation set are put together.
    """
    if is_merged(folder):
        trains = {part: merge.train_path(folder, part) for part in parts}
        held = sorted(folder.glob("c4-validation-*-samples.en.json.gz")) if take else []
        validated = held[:1] or [merge.validation_path(folder, validation)]
        if missing := [path.name for path in (*trains.values(), *validated) if not path.is_file()]:
            there = ", ".join(sorted(path.name for path in folder.glob("c4-*.json.gz")))
            raise BadInput(
                f"{folder} is not complete", ", ".join(missing), there, "podium prepare c4, layout merged; or set parts"
            )
        found = {part: _cut(path, take, work) for part, path in trains.items()}
    else:
        source = shards.find(folder, parts)
        found = {part: [Piece(one.path, take=take) for one in source.train if one.part == part] for part in parts}
        validated = source.validation
    merge.first(validated, validation, work)
    first = merge.validation_path(work, validation)
    return [
        *(Output(stem(merge.train_path(folder, part)), tuple(pieces)) for part, pieces in found.items()),
        Output(stem(first), (Piece(first),)),
    ]


def stem(path: Path) -> str:
    """What the token files of a .json.gz are called, without their ends."""
    return path.name.removesuffix(".json.gz") + "_text_document"


def _cut(path: Path, take: int, work: Path) -> list[Piece]:
    if take:
        return [Piece(path, take=take)]
    note = work / f"{path.name}.json"
    if not note.exists():
        files.write_json(note, members(path))
    places = files.read_json(note)
    return [Piece(path, start, stop) for start, stop in zip(places, places[1:], strict=False)]


def members(path: Path) -> list[int]:
    """The bytes at which a .gz can be cut, its beginning and end among them: behind members of gzip that end with a
    line, not closer than AT_LEAST. Raises BadInput where it is torn.
    """
    cuts, place, begun, size = [0], 0, 0, path.stat().st_size
    member, last, data = isal_zlib.decompressobj(_GZIP), b"", b""
    try:
        with path.open("rb") as file:
            while data := data or file.read(files.CHUNK):
                text = member.decompress(data, _MOST)
                last = text[-1:] or last
                rest = member.unused_data if member.eof else member.unconsumed_tail
                place, data = place + len(data) - len(rest), rest
                if member.eof:
                    if last == b"\n" and place - cuts[-1] >= AT_LEAST and place < size:
                        cuts.append(place)
                    member = isal_zlib.decompressobj(_GZIP)
                    begun = place
    except isal_zlib.IsalError as error:
        raise shards.torn(path, error) from error
    if not size or place != begun:
        raise shards.torn(path, "it ends within a member of gzip")
    return [*cuts, size]
