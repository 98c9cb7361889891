"""Layout `tfrecord`: train-00000-of-01024 … and validation-00000-of-00128 …, as TensorFlow's imagenet_to_gcs.py.

Training images are sorted, then shuffled with seed 0; validation images stay sorted by name. A shard has
ceil(n / shards) images, the last ones fewer or none. Files are untouched but for PNG and CMYK ones, which become RGB
JPEGs of quality 100 (one and 22 of them in the full set; they are found by content, not by name). The reference's own
order is that of a directory listing, so it is not defined; sorted is its defined variant.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from podium import files
from podium.data.formats import example, jpeg, tfrecord
from podium.data.imagenet import checks, parts
from podium.data.imagenet.source import Image, Source, contents

SPLITS = {"train": "train", "validation": "val"}  # as the files are called, and as all else calls them
SEED = 0  # imagenet_to_gcs.py: random.seed(0)


def order(source: Source) -> dict[str, list[Image]]:
    """The images of both splits in the order of the records."""
    train = list(source.train)
    random.Random(SEED).shuffle(train)
    return {"train": train, "validation": sorted(source.val, key=lambda image: image.name)}


def shards(images: list[Image], prefix: str, number: int) -> dict[str, list[Image]]:
    """File name -> images, in order; `number` files, of which the last may be short or empty."""
    size = -(-len(images) // number)
    return {f"{prefix}-{i:05d}-of-{number:05d}": images[i * size : (i + 1) * size] for i in range(number)}


def write(source: Source, to: Path, params: parts.Params, workers: int) -> dict[str, parts.Part]:
    """Write both splits; returns what went into each."""
    labels = {wnid: number for number, wnid in enumerate(source.classes, start=1)}
    work = {
        SPLITS[split]: {
            name: parts.Work(partial(_write_shard, to / name, some, labels, params), (to / name).exists)
            for name, some in shards(images, split, params.shards[split]).items()
        }
        for split, images in order(source).items()
    }
    return parts.together(to, work, params, workers)


def _write_shard(path: Path, images: list[Image], labels: dict[str, int], params: parts.Params) -> parts.Part:
    part = parts.Part()
    with files.writing(path) as file:
        for image, data in contents(images):
            header = part.look(image, data, params)
            if header is not None:
                data = part.to_rgb(data, header)
                file.writelines(tfrecord.frame(*example.encode(features(image, data, header, labels[image.wnid]))))
    return part


def features(image: Image, data: bytes, header: jpeg.Header, label: int) -> dict[str, example.Values]:
    """The features of one record; labels count from 1."""
    return {
        "image/height": header.height,
        "image/width": header.width,
        "image/colorspace": b"RGB",
        "image/channels": 3,
        "image/class/label": label,
        "image/class/synset": image.wnid.encode(),
        "image/format": b"JPEG",
        "image/filename": image.name.encode(),
        "image/encoded": data,
    }


def read(folder: Path, counts: Mapping[str, Any]) -> list[checks.Split]:
    """Both splits as they are: shards, crc32c of every record, features, labels, images, and how labels are mixed."""
    splits = []
    for split, prefix in (("train", "train"), ("val", "validation")):
        check = checks.Split(split, counts, base=1, untouched=False)
        for path in checks.numbered(check, folder, f"{prefix}-*-of-*", f"{prefix}-{{i:05d}}-of-{{n:05d}}"):
            with check.reading(path.name), check.shard():
                for record in tfrecord.scan(path):
                    where = f"{path.name} at byte {record.offset}"
                    check.same(
                        where, "data that fits its crc32c", "data that fits its crc32c" if record.intact else "other"
                    )
                    if record.intact:
                        _check_record(check, where, record.data)
        if split == "train":
            check.mixed()
        splits.append(check)
    return splits


def _check_record(check: checks.Split, where: str, data: bytes) -> None:
    found = {name: values[0] for name, values in example.decode(data).items()}
    wnid, name, encoded = (found[f"image/{key}"] for key in ("class/synset", "filename", "encoded"))
    image = Image(wnid.decode(), name.decode(), "", 0, len(encoded))
    header = check.image(where, image.name, found["image/class/label"], encoded, image.wnid)
    if header is not None:
        expected = features(image, encoded, header, found["image/class/label"])
        differing = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        check.same(where, "features that fit the image", ", ".join(differing) or "features that fit the image")
