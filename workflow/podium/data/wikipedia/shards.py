"""Shards: how many instances each gets, and writing them from the stored parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import h5py

from podium.data.tasks import Run
from podium.data.wikipedia import store
from podium.data.wikipedia.layouts import Writer
from podium.data.wikipedia.ragged import BLOCK, Instances
from podium.errors import BadInput


@dataclass(frozen=True)
class Shards:
    """The stored parts, and the files into which their instances are cut."""

    parts: Sequence[Path]
    part_sizes: Sequence[int]  # instances
    files: Sequence[Path]
    file_sizes: Sequence[int]

    @property
    def bounds(self) -> list[int]:
        """File f holds the instances bounds[f] to bounds[f + 1] of all parts in order."""
        return [0, *accumulate(self.file_sizes)]

    @property
    def firsts(self) -> list[int]:
        """The number of the first instance of each part."""
        return [0, *accumulate(self.part_sizes)][:-1]


def sizes(count: int, shards: int) -> list[int]:
    """Instances per shard: as equal as can be, the smaller shards first.

    Source: NVIDIA bert chop_hdf5_files.py, but for counts that divide evenly: there its first shard is one short and
    the last instance does not fit anywhere. Raises BadInput when there are more shards than instances.
    """
    small, larger = divmod(count, shards)
    if not small:
        raise BadInput("too many shards", f"at most {count}, one for each instance", str(shards), "lower `shards`")
    return [small] * (shards - larger) + [small + 1] * larger


def write(run: Run, shards: Shards, writer: Writer) -> None:
    """Write the files with the instances in the order of the parts; those that are there stay."""
    spans = zip(pairwise(shards.bounds), shards.files, strict=True)
    run([partial(_write, shards, start, stop, to, writer) for (start, stop), to in spans], "shards")


def _write(shards: Shards, start: int, stop: int, to: Path, writer: Writer) -> None:
    if not to.exists():
        writer(to, stop - start, _blocks(shards, start, stop))


def _blocks(shards: Shards, start: int, stop: int) -> Iterator[Instances]:
    for part, size, first in zip(shards.parts, shards.part_sizes, shards.firsts, strict=True):
        if first < stop and start < first + size:
            with h5py.File(part) as file:
                rows = range(max(start - first, 0), min(stop - first, size))
                for block in rows[::BLOCK]:
                    yield store.read_rows(file, block, min(block + BLOCK, rows.stop))
