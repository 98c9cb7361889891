"""Layout `webdataset`: tars of pairs <key>.cls (the label in digits, from 0) and <key>.jpg for the webdataset package.

Order and shards are those of the layout `tfrecord`, but there is no empty shard. PNG and CMYK files become
RGB JPEGs. Equal input gives equal bytes: time, owner and mode in the headers are fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from podium import files
from podium.data.formats import tar
from podium.data.imagenet import checks, parts, tfrecord
from podium.data.imagenet.source import Image, Source, contents
from podium.errors import BadInput


def write(source: Source, to: Path, params: parts.Params, workers: int) -> dict[str, parts.Part]:
    """Write both splits; returns what went into each. Raises BadInput when two images have the same key."""
    labels = {wnid: number for number, wnid in enumerate(source.classes)}
    work = {}
    for split, images in tfrecord.order(source).items():
        _check_keys(images)
        short = tfrecord.SPLITS[split]
        work[short] = {
            name: parts.Work(partial(_write_shard, to / name, some, labels, params), (to / name).exists)
            for name, some in shards(images, short, params.shards[split]).items()
        }
    return parts.together(to, work, params, workers)


def shards(images: list[Image], split: str, number: int) -> dict[str, list[Image]]:
    """File name -> images, in order; no shard is empty."""
    cut = tfrecord.shards(images, split, number).values()
    return {f"imagenet-{split}-{i:06d}.tar": some for i, some in enumerate(cut) if some}


def key(image: Image) -> str:
    """The name up to its first dot, where webdataset cuts it."""
    return image.name.partition(".")[0]


def _check_keys(images: list[Image]) -> None:
    twice = [name for name, times in Counter(map(key, images)).items() if times > 1]
    if twice:
        raise BadInput(
            "images of different classes have the same name",
            "each name once, for it is the key of a sample",
            f"{len(twice)}: {', '.join(twice[:10])}",
            "rename them, or prepare another layout",
        )


def _write_shard(path: Path, images: list[Image], labels: dict[str, int], params: parts.Params) -> parts.Part:
    part = parts.Part()
    with files.writing(path) as file:
        for image, data in contents(images):
            header = part.look(image, data, params)
            if header is not None:
                data = part.to_rgb(data, header)
                file.writelines(tar.frame(f"{key(image)}.cls", str(labels[image.wnid]).encode()))
                file.writelines(tar.frame(f"{key(image)}.jpg", data))
        file.write(tar.END)
    return part


def read(folder: Path, counts: Mapping[str, Any]) -> list[checks.Split]:
    """Both splits as they are: shards, pairs, labels, images, and how labels are mixed."""
    splits = []
    for split in ("train", "val"):
        check = checks.Split(split, counts, base=0, untouched=False)
        for path in checks.numbered(check, folder, f"imagenet-{split}-*.tar", f"imagenet-{split}-{{i:06d}}.tar"):
            with check.reading(path.name), check.shard():
                _check_shard(check, path)
        if split == "train":
            check.mixed()
        splits.append(check)
    return splits


def _check_shard(check: checks.Split, path: Path) -> None:
    label = ""
    with path.open("rb") as file:
        for number, (name, offset, size) in enumerate(tar.members(path)):
            file.seek(offset)
            stem, _, suffix = name.partition(".")
            check.same(f"{path.name}: {name}", ("cls", "jpg")[number % 2], suffix)
            if suffix == "cls":
                label, labelled = file.read(size), stem
            else:
                check.same(f"{path.name}: {name}", f"a label {labelled}.cls", f"a label {stem}.cls")
                check.image(path.name, stem, int(label), file.read(size))
