"""What must hold of the prepared subset, whatever its size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from podium.data.formats import jpeg
from podium.data.openimages import labels, source


class _Image(NamedTuple):
    """One image of openimages-mlperf.json."""

    name: str
    width: int
    height: int


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything that contradicts the format or the counts, one sentence each: of each split its classes, its images,
    of which each must be a whole JPEG of the size that is noted, and its boxes, at least one an image.
    """
    return [problem for split in source.SPLITS for problem in _of_split(folder, split, counts)]


def _of_split(folder: Path, split: str, counts: Mapping[str, Any]) -> list[str]:
    path, data = labels.path_of(folder, split), folder / split / "data"
    images: dict[int, _Image] = {}
    categories: list[str] = []
    boxed: set[int] = set()
    problems, boxes = [], 0
    try:
        for section, item in labels.read(path):
            if section == "categories":
                categories.append(item["name"])
            elif section == "images":
                images[item["id"]] = _Image(item["file_name"], item["width"], item["height"])
            else:
                boxes += 1
                boxed.add(item["image_id"])
                problems += [f"{split}: box {item['id']}: {problem}" for problem in _of_box(item, images)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"{path.relative_to(folder)}: expected images and boxes in COCO's form, found {error!r}"]
    if categories != source.names():
        problems.append(f"{split}: expected MLPerf's {len(source.names())} classes in order, found {len(categories)}")
    found = {"images": len(images), "boxes": boxes}
    problems += [
        f"{split}: expected {counts[f'{split}_{what}']} {what}, found {number}"
        for what, number in found.items()
        if number != counts[f"{split}_{what}"]
    ]
    if bare := images.keys() - boxed:
        problems.append(f"{split}: expected a box on every image, found {len(bare)} without, such as {min(bare)}")
    names = {image.name for image in images.values()}
    strays = sorted(item.name for item in data.glob("*") if item.name not in names)
    problems += [f"{split}/data/{name}: expected no such file, found one" for name in strays]
    return problems + [problem for image in images.values() for problem in _of_image(data / image.name, image)]


def _of_box(item: Mapping[str, Any], images: Mapping[int, _Image]) -> list[str]:
    image = images.get(item["image_id"])
    if image is None:
        return [f"expected an image, found number {item['image_id']}"]
    left, top, width, height = item["bbox"]
    inside = left >= 0 <= top and left + width <= image.width + 1e-6 and top + height <= image.height + 1e-6
    checks = {
        f"a place in {image.width} x {image.height} pixels": width >= 0 <= height and inside,
        "a class of MLPerf's": 0 <= item["category_id"] < len(source.names()),
        "iscrowd 0 or 1": item["iscrowd"] in (0, 1),
    }
    return [f"expected {expected}, found {item}" for expected, good in checks.items() if not good]


def _of_image(path: Path, image: _Image) -> list[str]:
    shown = "/".join(path.parts[-3:])
    try:
        head = jpeg.header(path.read_bytes())
    except (OSError, jpeg.Undecodable) as error:
        return [f"{shown}: expected a whole JPEG, found {error}"]
    size = (head.width, head.height)
    return [] if size == image[1:] else [f"{shown}: expected {image.width} x {image.height} pixels, found {size}"]
