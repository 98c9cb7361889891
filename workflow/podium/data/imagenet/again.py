"""Drawn images of a layout against the source, which `tarfile` reads once more: content, label, and place in the order.

Nothing of `prepare` is used: it looks for places in tars and reads those, here archives are opened one in the other and
every member is passed by; the labels of validation images come from one list, whichever there is.
"""

from __future__ import annotations

import random
import re
import struct
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from podium.data.again import Again, Sample
from podium.data.formats import example, jpeg

Name = tuple[str, str]  # wnid and file name
_WNID = re.compile(r"n\d{8}")
_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601, as in JPEG
_NEAR = 3.0  # levels of luma, the mean: 4:2:0 blurs colours, and where they saturate also luma (1.8 were measured)
_IMAGE_HEAD = struct.Struct("<IfQQ")


@dataclass(frozen=True, eq=False)
class Held:
    """An image as a layout holds it: label from 0, name up to the first dot, shard and place in it where it has one."""

    split: str
    label: int
    stem: str
    place: tuple[int, int] | None
    read: Callable[[], bytes]


def rederive(sample: Sample) -> Again:
    """Compare drawn images of the layout with the source."""
    held = list(_HELD[sample.layout](sample))
    wanted, met = defaultdict(list), defaultdict(list)
    for one in held:
        wanted[one.split, one.stem].append(one)
    names: dict[str, list[Name]] = {"train": [], "val": []}
    for split, wnid, name, read in _images(sample.source):
        names[split].append((wnid, name))
        for one in wanted.get((split, _stem(name)), ()):
            met[one].append((wnid, name, _same(one.read(), read())))
    labels = {wnid: label for label, wnid in enumerate(sorted({wnid for wnid, _ in names["train"]}))}
    of_val = _validation(sample.source, names["val"])
    names["val"] = [(of_val[name], name) for _, name in names["val"]]
    order = {split: _order(sample, split, names[split]) for split in names}
    problems = []
    for one in held:
        what = f"{one.split} {one.stem}"
        found = [(wnid or of_val[name], name, same) for wnid, name, same in met[one]]
        fitting = [(wnid, name, same) for wnid, name, same in found if labels[wnid] == one.label]
        if not fitting:
            expected = ", ".join(f"{labels[wnid]} ({wnid})" for wnid, *_ in found) or "an image of the source"
            problems.append(f"{what}: expected label {expected}, found {one.label}")
            continue
        wnid, name, same = fitting[0]
        if not same:
            problems.append(f"{what}: expected the content of {wnid}/{name} in the source, found another")
        if one.place and order[one.split] and (there := order[one.split][one.place[0]][one.place[1]]) != (wnid, name):
            problems.append(f"{what}: expected {'/'.join(there)} in its place, found {wnid}/{name}")
    return Again(len(held), problems)


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _same(held: bytes, source: bytes) -> bool:
    """Equal bytes; or, of a PNG or CMYK file that was encoded again, nearly equal luma."""
    if held == source:
        return True
    if held[:2] != b"\xff\xd8" or jpeg.header(source).kind == "jpeg":
        return False
    pixels, expected = jpeg.decode(held), jpeg.decode(source)
    return pixels.shape == expected.shape and bool(np.abs((pixels - expected.astype(int)) @ _LUMA).mean() <= _NEAR)


# --- the source


def _images(source: Path) -> Iterator[tuple[str, str, str, Callable[[], bytes]]]:
    """Split, wnid ("" for a flat validation image), name and content of every image, by its path alone."""
    root = source / "ILSVRC/Data/CLS-LOC" if (source / "ILSVRC").is_dir() else source
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield from _within(path.relative_to(root).parts, partial(path.open, "rb"))


def _within(
    trail: tuple[str, ...], open_file: Callable[[], IO[bytes]]
) -> Iterator[tuple[str, str, str, Callable[[], bytes]]]:
    """The image that a file is, or those in the tar that it is; `trail` is its path through folders and tars."""
    split = next((split for split in ("train", "val") if split in trail[0]), "")
    if not split or "_t3" in trail[0]:
        return
    if trail[-1].endswith(".tar"):
        with open_file() as file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                if member.isfile():
                    inner = tuple(part for part in PurePosixPath(member.name).parts if part != ".")
                    yield from _within((*trail, *inner), partial(archive.extractfile, member))
    elif trail[-1].lower().endswith((".jpeg", ".jpg")):
        wnids = [part.removesuffix(".tar") for part in trail[:-1]]
        wnid = next((part for part in reversed(wnids) if _WNID.fullmatch(part)), "")
        yield split, wnid, trail[-1], lambda: open_file().read()


def _validation(source: Path, names: list[Name]) -> dict[str, str]:
    """The wnid of each validation image by name, from its folder or from the first list that there is."""
    flat = sorted(name for wnid, name in names if not wnid)
    known = {name: wnid for wnid, name in names if wnid}
    if not flat:
        return known
    for path in sorted(source.iterdir()):
        if path.suffix == ".txt" and "label" in path.name:
            return known | dict(zip(flat, path.read_text(encoding="utf-8").split(), strict=True))
        if path.name in ("LOC_val_solution.csv", "valprep.sh"):
            pairs = re.findall(r"(ILSVRC2012_val_\d+)\S*?[ ,]+(n\d{8})", path.read_text(encoding="utf-8"))
            wnids = dict(pairs)
            return known | {name: wnids[_stem(name)] for name in flat}
        if path.name.startswith("ILSVRC2012_devkit_t12"):
            return known | dict(zip(flat, _of_devkit(path), strict=True))
    return known


def _of_devkit(path: Path) -> list[str]:
    from scipy.io import loadmat  # takes a second; needed for this list alone

    if path.is_dir():
        open_file = {file.name: partial(file.open, "rb") for file in (path / "data").iterdir()}
    else:
        archive = tarfile.open(path)  # noqa: SIM115 (its members are read below)
        open_file = {PurePosixPath(one.name).name: partial(archive.extractfile, one) for one in archive if one.isfile()}
    table = loadmat(open_file["meta.mat"](), squeeze_me=True)["synsets"]
    wnids = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in table}
    return [wnids[int(line)] for line in open_file["ILSVRC2012_validation_ground_truth.txt"]().read().split()]


def _order(sample: Sample, split: str, names: list[Name]) -> list[list[Name]]:
    """The images of each shard in order; nothing for a layout without an order, or if images were left out."""
    counts, params = sample.content.counts, sample.content.params
    if sample.layout == "folder" or counts["undecodable"]:
        return []
    order, seen = [], Counter()
    for name in sorted(names):
        seen[name[0]] += 1
        if seen[name[0]] <= params.get("take", 0) or not params.get("take"):
            order.append(name)
    if sample.layout == "recordio":
        random.Random(100).shuffle(order)
        return [order]
    if split == "train":
        random.Random(0).shuffle(order)
    else:
        order.sort(key=lambda name: name[1])
    shards = params.get("shards", {"train": 1024, "validation": 128})["train" if split == "train" else "validation"]
    size = -(-len(order) // shards)
    return [order[start : start + size] for start in range(0, len(order), size)]


# --- the layouts


def _of_recordio(sample: Sample) -> Iterator[Held]:
    for split in ("train", "val"):
        lines = (sample.folder / f"{split}.lst").read_text(encoding="utf-8").splitlines()
        index = (sample.folder / f"{split}.idx").read_text(encoding="utf-8").splitlines()
        for place in sample.drawn(range(len(lines))):
            read = partial(_payload, sample.folder / f"{split}.rec", int(index[place].split("\t")[1]))
            label = int(_IMAGE_HEAD.unpack_from(read())[1])
            name = lines[place].split("\t")[2].rpartition("/")[2]
            yield Held(split, label, _stem(name), (0, place), lambda read=read: read()[_IMAGE_HEAD.size :])


def _payload(path: Path, offset: int) -> bytes:
    """The record at `offset`, its parts joined by the magic word that was left out between them."""
    parts = []
    with path.open("rb") as file:
        file.seek(offset)
        while True:
            magic, word = struct.unpack("<4sI", file.read(8))
            kind, length = word >> 29, word & 0x1FFFFFFF
            parts.append(file.read(length))
            file.seek(-length % 4, 1)
            if kind in (0, 3):
                return magic.join(parts)


def _drawn_shards(sample: Sample, pattern: str) -> tuple[list[tuple[int, Path]], float]:
    """Some shards with their numbers, and which share of their items makes the share of all."""
    shards = [(number, path) for number, path in enumerate(sorted(sample.folder.glob(pattern))) if path.stat().st_size]
    some = sample.drawn(shards, least=1)
    return some, sample.share * len(shards) / len(some)


def _of_tfrecord(sample: Sample) -> Iterator[Held]:
    for split, prefix in (("train", "train"), ("val", "validation")):
        shards, share = _drawn_shards(sample, f"{prefix}-*-of-*")
        for number, path in shards:
            for place, (offset, length) in sample.drawn(list(enumerate(_records(path))), share=share):
                read = partial(_features, path, offset, length)
                found = read()
                name, (label,) = found["image/filename"][0].decode(), found["image/class/label"]
                content = lambda read=read: read()["image/encoded"][0]  # noqa: E731
                yield Held(split, label - 1, _stem(name), (number, place), content)


def _records(path: Path) -> Iterator[tuple[int, int]]:
    """Where the data of each record lies: after a length and its crc, before a crc of its own."""
    offset, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while offset < size:
            file.seek(offset)
            (length,) = struct.unpack("<Q", file.read(8))
            yield offset + 12, length
            offset += length + 16


def _features(path: Path, offset: int, length: int) -> dict[str, list]:
    with path.open("rb") as file:
        file.seek(offset)
        return example.decode(file.read(length))


def _of_webdataset(sample: Sample) -> Iterator[Held]:
    for split in ("train", "val"):
        shards, share = _drawn_shards(sample, f"imagenet-{split}-*.tar")
        for number, path in shards:
            with tarfile.open(path) as archive:
                members = archive.getmembers()
                labels = [int(archive.extractfile(member).read()) for member in members[::2]]
            pairs = list(enumerate(zip(labels, members[1::2], strict=True)))
            for place, (label, member) in sample.drawn(pairs, share=share):
                read = partial(_slice, path, member.offset_data, member.size)
                yield Held(split, label, _stem(member.name), (number, place), read)


def _slice(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _of_folder(sample: Sample) -> Iterator[Held]:
    for split in ("train", "val"):
        classes = sorted(path.name for path in (sample.folder / split).iterdir())
        paths = sorted((sample.folder / split).glob("*/*"))
        for path in sample.drawn(paths):
            yield Held(split, classes.index(path.parent.name), _stem(path.name), None, path.read_bytes)


_HELD = {"recordio": _of_recordio, "tfrecord": _of_tfrecord, "webdataset": _of_webdataset, "folder": _of_folder}
