"""The instances of a text part between two steps, without padding: one HDF5 file, read again in slices."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

import h5py
import numpy as np

from podium.data.formats import hdf5
from podium.data.wikipedia.ragged import Instances, Ragged

PARTS = "parts.csv"  # of a layout: what each text part gave, in the order in which their instances stand


@dataclass(frozen=True)
class Part:
    """A line of `parts.csv`."""

    name: str
    articles: int
    instances: int


def read_parts(folder: Path) -> list[Part]:
    """What each text part gave; raises OSError, KeyError or ValueError when the table is none."""
    with (folder / PARTS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [Part(row["part"], int(row["articles"]), int(row["instances"])) for row in rows]


def write(path: Path, instances: Instances, **beside: int | np.ndarray) -> None:
    """Write all instances of a part, and what else is to be known of it; whole or not at all."""
    with hdf5.writing(path) as file:
        for field in fields(Instances):
            value = getattr(instances, field.name)
            if isinstance(value, Ragged):
                file[f"{field.name}/values"], file[f"{field.name}/starts"] = value.values, value.starts
            else:
                file[field.name] = value
        for name, value in beside.items():
            file[name] = value


def count(path: Path) -> int:
    """How many instances a stored part has."""
    with h5py.File(path) as file:
        return len(file["next_sentence_labels"])


def lengths(path: Path) -> np.ndarray:
    """How long each instance of a stored part is: (N,) int16."""
    with h5py.File(path) as file:
        return np.diff(file["input_ids/starts"][:]).astype(np.int16)


def articles(path: Path) -> int:
    """How many articles a stored part was made of."""
    with h5py.File(path) as file:
        return int(file["articles"][()])


def read(path: Path) -> Instances:
    """All instances of a stored part."""
    with h5py.File(path) as file:
        return read_rows(file, 0, len(file["next_sentence_labels"]))


def read_rows(file: h5py.File, start: int, stop: int) -> Instances:
    """Consecutive instances of an open stored part."""
    return Instances(**{field.name: _read(file[field.name], start, stop) for field in fields(Instances)})


def _read(stored: h5py.Group | h5py.Dataset, start: int, stop: int) -> Ragged | np.ndarray:
    if isinstance(stored, h5py.Dataset):
        return stored[start:stop]
    starts = stored["starts"][start : stop + 1]
    return Ragged(stored["values"][starts[0] : starts[-1]], starts - starts[0])
