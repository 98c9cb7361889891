"""Layout `recordio`: train.{lst,rec,idx} and val.{lst,rec,idx}, byte for byte what MXNet's im2rec writes.

The list is that of `im2rec.py --list --recursive` (classes and files sorted, then shuffled with seed 100), the records
those of `--pass-through`: the file's bytes, untouched.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from podium import files
from podium.data.formats import recordio
from podium.data.imagenet import checks, parts
from podium.data.imagenet.source import Image, Source, contents
from podium.progress import bar

SEED = 100  # im2rec.py: random.seed(100)
BATCH = 512 << 10  # bytes that a worker holds: what it has read shall still be in its cache when it is written
GROUP = 1 << 30  # bytes whose batches are queued at a time
_PIECES = 1000  # for one pwritev; IOV_MAX is 1024


class Listed(NamedTuple):
    """An image in the list: `id` is its place in the sorted walk, `label` the place of its class, from 0."""

    id: int
    label: int
    image: Image


def listed(images: list[Image], classes: list[str]) -> list[Listed]:
    """The images in im2rec's order; `images` are sorted."""
    label = {wnid: number for number, wnid in enumerate(classes)}
    items = [Listed(number, label[image.wnid], image) for number, image in enumerate(images)]
    random.Random(SEED).shuffle(items)
    return items


def write(source: Source, to: Path, params: parts.Params, workers: int) -> dict[str, parts.Part]:
    """Write both splits; returns what went into each."""
    made = {}
    for split, images in (("train", source.train), ("val", source.val)):
        items = listed(images, source.classes)
        make = partial(_write_split, split, items, to, params, workers)
        work = parts.Work(make, (to / f"{split}.lst").exists)
        made[split] = parts.once(to, split, work, params)
    return made


def _write_split(split: str, items: list[Listed], to: Path, params: parts.Params, workers: int) -> parts.Part:
    total, written, position = parts.Part(), [], 0
    with files.writing(to / f"{split}.rec") as file, ThreadPoolExecutor(workers) as pool:
        groups = list(_batches(items, GROUP))
        for group in bar(groups, f"{split}.rec", unit="GiB"):
            work = list(_batches(group, BATCH))
            ends: list[Future[int]] = [Future() for _ in range(len(work) + 1)]
            ends[0].set_result(position)
            write = partial(_write_batch, file.fileno(), params)
            for part, offsets in pool.map(write, work, ends, ends[1:]):
                total.add(part)
                written += offsets
            position = ends[-1].result()
        parts.refuse_undecodable(split, total, params)
    kept = {id for id, _ in written}
    with files.writing(to / f"{split}.idx", "w") as file:
        file.writelines(f"{id}\t{offset}\n" for id, offset in written)
    with files.writing(to / f"{split}.lst", "w") as file:
        file.writelines(f"{item.id}\t{item.label:f}\t{item.image.relative}\n" for item in items if item.id in kept)
    return total


def _batches(items: Iterable[Listed], limit: int) -> Iterator[list[Listed]]:
    """Cut the list into runs of about `limit` bytes."""
    batch, held = [], 0
    for item in items:
        batch.append(item)
        held += item.image.size
        if held >= limit:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _write_batch(
    file: int, params: parts.Params, items: list[Listed], start: Future[int], end: Future[int]
) -> tuple[parts.Part, list[tuple[int, int]]]:
    """Write the records of `items` at `start`; returns what they are and (id, offset) of each.

    Workers read and frame batches at the same time. Where a batch begins is known as soon as the one before it is
    framed: only then is it known into how many parts its records are cut.
    """
    part, pieces, offsets, length = parts.Part(), [], [], 0
    try:
        for item, (image, data) in zip(items, contents(item.image for item in items), strict=True):
            if part.look(image, data, params) is not None:
                record = recordio.frame(recordio.image_head(item.label, item.id), data)
                offsets.append((item.id, length))
                length += sum(map(len, record))
                pieces += record
        position = start.result()
        end.set_result(position + length)
    except BaseException as error:
        end.set_exception(error)
        raise
    _write_at(file, position, pieces)
    return part, [(id, position + offset) for id, offset in offsets]


def _write_at(file: int, position: int, pieces: list[bytes]) -> None:
    """Write `pieces` one after the other; what a write leaves over, as before "no space left", is tried again."""
    for first in range(0, len(pieces), _PIECES):
        some = pieces[first : first + _PIECES]
        end = position + sum(map(len, some))
        position += os.pwritev(file, some, position)
        while position < end:
            position += os.pwrite(file, b"".join(some)[position - end :], position)


def read(folder: Path, counts: Mapping[str, Any]) -> list[checks.Split]:
    """Both splits as they are: heads, ids, labels, offsets, images, and where the three files of a split disagree."""
    return [_read_split(folder, split, counts) for split in ("train", "val")]


def _read_split(folder: Path, split: str, counts: Mapping[str, Any]) -> checks.Split:
    check = checks.Split(split, counts, base=0, untouched=True)
    lines, index, records = [], [], 0
    with check.reading(f"{split}.lst"):
        lines = [line.split("\t") for line in (folder / f"{split}.lst").read_text(encoding="utf-8").splitlines()]
    with check.reading(f"{split}.idx"):
        index = [line.split("\t") for line in (folder / f"{split}.idx").read_text(encoding="utf-8").splitlines()]
    with check.reading(f"{split}.rec"):
        for record in recordio.read(folder / f"{split}.rec"):
            if records < min(len(lines), len(index)):
                _check_record(check, record, lines[records], index[records])
            records += 1
    check.same(f"{split}.lst", f"{records} lines, one a record", f"{len(lines)} lines, one a record")
    check.same(f"{split}.idx", f"{records} lines, one a record", f"{len(index)} lines, one a record")
    return check


def _check_record(check: checks.Split, record: recordio.Record, line: list[str], entry: list[str]) -> None:
    """A record against its lines in .lst and .idx."""
    image = recordio.image(record.payload)
    id, label, relative = line
    where = f"{check.name}.rec at byte {record.offset}"
    check.same(where, f"id {id}, label {float(label):g}", f"id {image.id}, label {image.label:g}")
    check.same(where, "flag 0, id2 0", f"flag {image.flag}, id2 {image.id2}")
    check.same(f"{check.name}.idx", f"{image.id} at byte {record.offset}", " at byte ".join(entry))
    check.image(where, relative, int(image.label), image.image, relative.partition("/")[0])
