"""Layout `folder`: train/<wnid>/*.JPEG and val/<wnid>/*.JPEG, the files untouched, as torchvision's ImageFolder reads.

This is the one layout that makes 1.3 million small files. A class folder appears when all its files are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from podium import files
from podium.data.imagenet import checks, parts
from podium.data.imagenet.source import Image, Source, contents


def write(source: Source, to: Path, params: parts.Params, workers: int) -> dict[str, parts.Part]:
    """Write both splits; returns what went into each."""
    work: dict[str, dict[str, parts.Work]] = {"train": {}, "val": {}}
    for split, images in (("train", source.train), ("val", source.val)):
        for wnid, group in groupby(images, attrgetter("wnid")):
            some = list(group)
            name = f"{split}/{wnid}"
            work[split][name] = parts.Work(
                partial(_write_class, to / name, some, params), partial(_lies_there, to / name, some)
            )
    return parts.together(to, work, params, workers)


def _write_class(folder: Path, images: list[Image], params: parts.Params) -> parts.Part:
    part = parts.Part()
    with files.replacing(folder) as fresh:
        for image, data in contents(images):
            if part.look(image, data, params) is not None:
                (fresh / image.name).write_bytes(data)
    return part


def _lies_there(folder: Path, images: list[Image]) -> bool:
    """Whether the sizes are right: so many files are not synced one by one, and a power cut may have emptied some."""
    present = {path.name: path.stat().st_size for path in folder.glob("*")}
    return bool(present) and all(present.get(image.name, image.size) == image.size for image in images)


def read(folder: Path, counts: Mapping[str, Any]) -> list[checks.Split]:
    """Both splits as they are: classes and images."""
    splits = []
    for split in ("train", "val"):
        check = checks.Split(split, counts, base=0, untouched=True)
        classes = sorted(path for path in (folder / split).glob("*") if path.is_dir())
        for label, wnid in enumerate(classes):
            for path in sorted(wnid.iterdir()):
                check.image(split, f"{wnid.name}/{path.name}", label, path.read_bytes(), wnid.name)
        splits.append(check)
    return splits
