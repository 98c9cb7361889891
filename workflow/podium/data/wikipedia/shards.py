"""Shards: how many instances each gets, and writing one from the stored parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import h5py

from podium.data.wikipedia import store
from podium.data.wikipedia.layouts import Writer
from podium.data.wikipedia.ragged import BLOCK, Instances
from podium.data.wikipedia.tasks import Run
from podium.errors import BadInput


def sizes(count: int, shards: int) -> list[int]:
    """Instances per shard: as equal as can be, the smaller shards first.

    Source: NVIDIA bert chop_hdf5_files.py, but for counts that divide evenly: there its first shard is one short and
    the last instance does not fit anywhere. Raises BadInput when there are more shards than instances.
    """
    small, larger = divmod(count, shards)
    if not small:
        raise BadInput("too many shards", f"at most {count}, one for each instance", str(shards), "lower `shards`")
    return [small] * (shards - larger) + [small + 1] * larger


def write(
    run: Run, parts: Sequence[Path], sizes: Sequence[int], cut: Sequence[int], to: Sequence[Path], writer: Writer
) -> None:
    """Write the instances of all stored parts, in order, as files of `cut` instances each."""
    spans = pairwise([0, *accumulate(cut)])
    run([partial(_write, parts, sizes, *span, path, writer) for span, path in zip(spans, to, strict=True)], "shards")


def _write(parts: Sequence[Path], sizes: Sequence[int], start: int, stop: int, to: Path, writer: Writer) -> None:
    if not to.exists():
        writer(to, stop - start, _blocks(parts, sizes, start, stop))


def _blocks(parts: Sequence[Path], sizes: Sequence[int], start: int, stop: int) -> Iterator[Instances]:
    for part, size, after in zip(parts, sizes, accumulate(sizes), strict=True):
        first = after - size
        if first < stop and start < after:
            with h5py.File(part) as file:
                rows = range(max(start - first, 0), min(stop - first, size))
                for block in rows[::BLOCK]:
                    yield store.read_rows(file, block, min(block + BLOCK, rows.stop))
