"""Rows of 912 bytes: label, numbers, ids of all features, as convert_to_raw.py writes them for HugeCTR.

Source: training_results_v3.0@63e326c4, hugectr/preprocessing/convert_to_raw.py. There a day is held in memory, 200 GB;
here a block of rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podium import files
from podium.data.criteo import days

BYTES = 4 * (1 + days.DENSE + sum(days.IDS))
BLOCK = 1 << 16  # rows at once: 60 MB
_NOTES = "work"  # folder of which parts are done


@dataclass(frozen=True)
class Part:
    """Rows `start` to before `stop` of one day, and the first row that they become in the file `name`."""

    day: days.Day
    start: int
    stop: int
    name: str
    first: int

    @property
    def note(self) -> str:
        """What says that this part is done."""
        return f"{_NOTES}/{self.day.labels.stem}-{self.start}-{self.stop}.json"


def path_of(folder: Path, name: str) -> Path:
    """The file of the `train`, `eval` or `test` samples; HugeCTR calls the second one val."""
    return folder / f"{'val' if name == 'eval' else name}_data.bin"


def parts(found: Sequence[days.Day], counts: Sequence[int], evaluated: int) -> list[Part]:
    """The first `counts` samples of each day: all but the last train; of that the first `evaluated` are evaluated."""
    made, first = [], 0
    for day, count in zip(found[:-1], counts[:-1], strict=True):
        made.append(Part(day, 0, count, "train", first))
        first += count
    last = found[-1]
    return [*made, Part(last, 0, evaluated, "eval", 0), Part(last, evaluated, counts[-1], "test", 0)]


def write(part: Part, to: Path) -> None:
    """Write one part to its place; nothing where it is noted as done."""
    if (to / part.note).exists():
        return
    path = path_of(to, part.name)
    with files.explained(path):
        path.touch()
        with days.streams(part.day) as columns, path.open("r+b") as file:
            file.seek(part.first * BYTES)
            for column in columns:
                column.skip(part.start)
            for start in range(part.start, part.stop, BLOCK):
                count = min(BLOCK, part.stop - start)
                file.write(np.concatenate([column.read(count).view("<i4") for column in columns], axis=1))
            file.flush()
            os.fsync(file.fileno())
    files.write_json(to / part.note, {"rows": part.stop - part.start})


def finish(to: Path, samples: Mapping[str, int]) -> None:
    """Cut files to their length, which an earlier try may have passed, and forget which parts are done."""
    for name, count in samples.items():
        with path_of(to, name).open("ab") as file:
            file.truncate(count * BYTES)
    shutil.rmtree(to / _NOTES)


def there(to: Path) -> int:
    """Bytes that an earlier try has written."""
    return sum(path.stat().st_blocks * 512 for path in to.glob("*_data.bin"))
