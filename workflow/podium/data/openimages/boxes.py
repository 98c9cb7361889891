"""The list of boxes, 14.6 million lines for training, cut into one for each archive with MLPerf's classes alone.

The columns are those of Open Images v5 and v6: storage.googleapis.com/openimages/web/download.html, "Data Formats".
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from podium import files
from podium.data.openimages.source import DIGITS, NEXT, List
from podium.errors import BadInput

_COLUMNS = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax", "IsGroupOf")


class Box(NamedTuple):
    """Class and place of an object, in shares of the image's width and height; `group` is a crowd of them."""

    category: int
    left: float
    right: float
    top: float
    bottom: float
    group: int


def path_of(work: Path, split: str, digit: str) -> Path:
    """Where the boxes of one archive are."""
    return work / "boxes" / f"{split}{digit}.csv"


def split(listed: List, numbers: Mapping[str, int], work: Path) -> None:
    """Write the boxes of MLPerf's classes, a line `image,class,left,right,top,bottom,group` each, for each archive.

    Nothing is done where all these files are there. Raises BadInput for another kind of list, naming the line.
    """
    digits = DIGITS if listed.split == "train" else [""]
    paths = {digit: path_of(work, listed.split, digit) for digit in digits}
    if all(path.exists() for path in paths.values()):
        return
    with ExitStack() as stack, listed.path.open(encoding="utf-8", newline="") as file:
        to = {digit: stack.enter_context(files.writing(path, "w")) for digit, path in paths.items()}
        reader = csv.reader(file)
        try:
            head = next(reader, [])
            image, label, *place = [head.index(name) for name in _COLUMNS]
            for row in reader:
                if len(row) != len(head):
                    raise ValueError(f"{len(row)} columns instead of {len(head)}")
                number = numbers.get(row[label])
                if number is None:
                    continue
                values = [row[column] for column in place]
                box = Box(number, *map(float, values[:-1]), int(values[-1]))
                if not (0 <= box.left <= box.right <= 1 and 0 <= box.top <= box.bottom <= 1):
                    raise ValueError("a box out of the image")
                digit = row[image][0] if len(digits) > 1 else ""
                to[digit].write(f"{row[image]},{number},{','.join(values)}\n")
        except (ValueError, LookupError, csv.Error) as error:
            expected, found = f"columns {', '.join(_COLUMNS)}", f"{error!r} in line {reader.line_num}"
            raise BadInput(f"{listed.path} is no list of boxes", expected, found, NEXT) from error


def read(path: Path) -> dict[str, list[Box]]:
    """The boxes of each image of one archive, in the order of the list."""
    found: dict[str, list[Box]] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            image, category, *place, group = line.rstrip("\n").split(",")
            found.setdefault(image, []).append(Box(int(category), *map(float, place), int(group)))
    return found
