"""What a source folder of Open Images must hold, and which classes MLPerf uses."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podium import config as configuration
from podium.errors import BadInput

FORMS = {
    "archives": "train_{0…f}.tar.gz, validation.tar.gz, {train,validation}-annotations-bbox.csv and "
    "class-descriptions-boxable.csv, as they are fetched",
}
SPLITS = ("train", "validation")
CLASSES = configuration.WORKFLOW / "catalog" / "datasets" / "openimages_classes.csv"
DESCRIPTIONS = "class-descriptions-boxable.csv"
DIGITS = "0123456789abcdef"
NEXT = "podium fetch openimages"


@dataclass(frozen=True)
class Archive:
    """A tar.gz of images; those of the training images hold the ids that begin with `digit`."""

    path: Path
    split: str
    digit: str = ""

    @property
    def name(self) -> str:
        """What its notes in the work folder are called."""
        return self.path.name.removesuffix(".tar.gz")


@dataclass(frozen=True)
class List:
    """The list of all boxes of a split."""

    path: Path
    split: str


@dataclass(frozen=True)
class Source:
    """All that is read, and the number of each class by its label, such as /m/0jbk."""

    archives: list[Archive]
    lists: list[List]
    numbers: Mapping[str, int]


def find(folder: Path) -> Source:
    """The files in `folder`; raises BadInput that names all that are missing."""
    archives = [Archive(folder / f"train_{digit}.tar.gz", "train", digit) for digit in DIGITS]
    archives.append(Archive(folder / "validation.tar.gz", "validation"))
    lists = [List(folder / f"{split}-annotations-bbox.csv", split) for split in SPLITS]
    wanted = [folder / DESCRIPTIONS, *(one.path for one in (*archives, *lists))]
    if missing := [path.name for path in wanted if not path.is_file()]:
        raise BadInput(f"{folder} is not complete", FORMS["archives"], f"no {', '.join(missing)}", NEXT)
    return Source(archives, lists, _numbers(folder / DESCRIPTIONS))


def names() -> list[str]:
    """The names of MLPerf's classes, in the order of their numbers."""
    with CLASSES.open(encoding="utf-8", newline="") as file:
        return [row["name"] for row in csv.DictReader(file)]


def _numbers(descriptions: Path) -> dict[str, int]:
    """The number of each of MLPerf's classes by its label; raises BadInput when one is not described."""
    try:
        with descriptions.open(encoding="utf-8", newline="") as file:
            labels = {row[1]: row[0] for row in csv.reader(file) if len(row) == 2}
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{descriptions} describes no classes", "lines of label,name", str(error), NEXT) from error
    if missing := [name for name in names() if name not in labels]:
        found = f"{len(labels)} classes without {len(missing)} of them, such as {missing[0]}"
        raise BadInput(f"{descriptions} describes other classes", f"MLPerf's {len(names())}", found, NEXT)
    return {labels[name]: number for number, name in enumerate(names())}
