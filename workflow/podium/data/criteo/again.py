"""Drawn rows once more, number by number, against those that were written."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import IO

from podium.data.again import Again, Sample
from podium.data.criteo import days, rows

_AT_ONCE = 1000  # neighbouring rows that are compared; as many places are drawn as make 1 %, ten of a day at most
_MOST = 10


def rederive(sample: Sample) -> Again:
    """Compare rows of every day with labels, numbers and ids that are read from the arrays one by one."""
    counts, items, problems, first = sample.content.counts, 0, [], 0
    found = days.find(sample.source)
    for number, day in enumerate(found):
        last = number == len(found) - 1
        taken = sample.content.params.get("take", 0)
        total = min(day.rows, taken or day.rows)
        for start in sample.drawn(range(0, total, _AT_ONCE), least=1)[:_MOST]:
            stop = min(start + _AT_ONCE, total)
            wanted = _rows(day, start, stop)
            for row, content in enumerate(wanted, start):
                name, place = "train", first + row
                if last:
                    evaluated = counts["eval_samples"]
                    name, place = ("eval", row) if row < evaluated else ("test", row - evaluated)
                path = rows.path_of(sample.folder, name)
                if _row(path, place) != content:
                    expected = f"sample {row} of day {number} in row {place}"
                    problems.append(f"{path.name}: expected {expected}, found another")
            items += len(wanted)
        first += total
    return Again(items, problems)


def _row(path: Path, place: int) -> bytes:
    with path.open("rb") as file:
        file.seek(place * rows.BYTES)
        return file.read(rows.BYTES)


def _rows(day: days.Day, start: int, stop: int) -> list[bytes]:
    """The samples of a day as rows."""
    made = [_plain(day.labels, 4, start, stop), _plain(day.dense, 4 * days.DENSE, start, stop)]
    with zipfile.ZipFile(day.ids) as archive:
        for feature, width in enumerate(days.IDS):
            with archive.open(f"{feature}.npy") as file:
                made.append(_pieces(file, 4 * width, start, stop))
    return [b"".join(pieces) for pieces in zip(*made, strict=True)]


def _plain(path: Path, width: int, start: int, stop: int) -> list[bytes]:
    with path.open("rb") as file:
        return _pieces(file, width, start, stop)


def _pieces(file: IO[bytes], width: int, start: int, stop: int) -> list[bytes]:
    head = file.read(10)
    file.seek(10 + struct.unpack("<H", head[8:])[0] + start * width)
    return [file.read(width) for _ in range(start, stop)]
