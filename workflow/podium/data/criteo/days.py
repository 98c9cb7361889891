"""The arrays of each day, as the reference has them: labels, numbers, and 26 arrays of ids in one .npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from podium import config as configuration
from podium.errors import BadInput

FORMS = {"arrays": "day_{0…23}_{labels,dense}.npy and day_{0…23}_sparse_multi_hot.npz, as they are fetched"}
DAYS, DENSE = 24, 13
IDS = tuple(configuration.catalog("datasets/criteo")["published"]["multi_hot_sizes"])  # of each of the 26 features
NEXT = "podium fetch criteo"
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError)


@dataclass(frozen=True)
class Day:
    """One day: where its files are, and how many samples each of them has."""

    labels: Path
    dense: Path
    ids: Path
    rows: int


def find(folder: Path) -> list[Day]:
    """All days; raises BadInput that names what is missing, and every array of another kind or number of rows."""
    kinds = ("labels.npy", "dense.npy", "sparse_multi_hot.npz")
    names = [[f"day_{day}_{kind}" for kind in kinds] for day in range(DAYS)]
    if missing := [name for day in names for name in day if not (folder / name).is_file()]:
        raise BadInput(f"{folder} is not complete", FORMS["arrays"], f"no {', '.join(missing[:6])}", NEXT)
    return [_day(*(folder / name for name in day)) for day in names]


def _day(labels: Path, dense: Path, ids: Path) -> Day:
    with streams(Day(labels, dense, ids, 0)) as columns:
        shapes = [(column.rows, column.width, column.dtype.str) for column in columns]
    wanted = [(shapes[0][0], width, dtype) for width, dtype in ((1, "<i4"), (DENSE, "<f4"), *((n, "<i4") for n in IDS))]
    for column, shape, expected in zip(columns, shapes, wanted, strict=True):
        if shape != expected:
            says = "{} rows of {} columns of {}".format
            raise BadInput(f"{column.name} does not fit {labels.name}", says(*expected), says(*shape), NEXT)
    return Day(labels, dense, ids, shapes[0][0])


@dataclass(frozen=True)
class Column:
    """An array in a stream: what its header says, and the stream behind the header."""

    name: str
    stream: IO[bytes]
    rows: int
    width: int
    dtype: np.dtype

    def read(self, count: int) -> np.ndarray:
        """The next `count` rows; raises BadInput where the array ends before, or its checksum is wrong."""
        try:
            content = self.stream.read(count * self.width * self.dtype.itemsize)
            return np.frombuffer(content, self.dtype).reshape(count, self.width)
        except _UNREADABLE as error:
            raise BadInput(f"{self.name} is damaged", f"{self.rows} rows", str(error), NEXT) from error

    def skip(self, count: int) -> None:
        """Go on behind the next `count` rows."""
        self.stream.seek(count * self.width * self.dtype.itemsize, 1)


@contextmanager
def streams(day: Day) -> Iterator[list[Column]]:
    """Labels, numbers and the ids of each feature, from their first rows on; raises BadInput where one is no array."""
    with ExitStack() as stack:
        columns = [_column(path, stack.enter_context(path.open("rb"))) for path in (day.labels, day.dense)]
        try:
            archive = stack.enter_context(zipfile.ZipFile(day.ids))
            members = [stack.enter_context(archive.open(f"{feature}.npy")) for feature in range(len(IDS))]
        except _UNREADABLE as error:
            raise BadInput(f"{day.ids} has no arrays 0 to {len(IDS) - 1}", "an .npz", str(error), NEXT) from error
        yield columns + [_column(day.ids / f"{feature}.npy", member) for feature, member in enumerate(members)]


def _column(name: Path, stream: IO[bytes]) -> Column:
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version of .npy than 1.0")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
        if by_column:
            raise ValueError("an array column by column")
    except _UNREADABLE as error:
        raise BadInput(f"{name} is no array", "a .npy file", str(error), NEXT) from error
    return Column(str(name), stream, shape[0], int(np.prod(shape[1:])), dtype)
