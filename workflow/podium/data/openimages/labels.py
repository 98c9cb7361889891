"""The boxes in COCO's form, openimages-mlperf.json: one object a line, so that it can be read without holding it.

Keys and arithmetic are those of fiftyone's export as mlcommons/training@aa344c7f retired_benchmarks/retinanet/scripts/
fiftyone_openimages.py calls it: classes count from 0, places are in pixels, and `iscrowd` is IsGroupOf. There the order
of the images is that of a download; here it is that of their ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from podium import files
from podium.data.openimages import boxes, subset
from podium.data.openimages.source import Archive, names

NAME = "openimages-mlperf.json"


def path_of(folder: Path, split: str) -> Path:
    """Where the boxes of a split are."""
    return folder / split / "labels" / NAME


def write(to: Path, split: str, archives: Sequence[Archive], work: Path) -> dict[str, int]:
    """Write the file of one split; returns how many images and boxes it has."""
    images, annotations = 0, 0
    with files.writing(path_of(to, split), "w") as file:
        categories = [{"id": number, "name": name, "supercategory": None} for number, name in enumerate(names())]
        file.write('{"info": {}, "licenses": [],\n"categories": [\n' + ",\n".join(map(json.dumps, categories)))
        file.write('\n],\n"images": [')
        for image, width, height, _ in _images(archives, work):
            head = {"id": images + 1, "file_name": f"{image}{subset.SUFFIX}", "width": width, "height": height}
            file.write(f"{',' if images else ''}\n{json.dumps(head)}")
            images += 1
        file.write('\n],\n"annotations": [')
        for number, (_, width, height, found) in enumerate(_images(archives, work), 1):
            for box in found:
                line = json.dumps({"id": annotations + 1, "image_id": number, **annotation(box, width, height)})
                file.write(f"{',' if annotations else ''}\n{line}")
                annotations += 1
        file.write("\n]}\n")
    return {f"{split}_images": images, f"{split}_boxes": annotations}


def annotation(box: boxes.Box, width: int, height: int) -> dict[str, Any]:
    """A box in an image of that size: [left, top, width, height] in pixels."""
    across, down = (box.right - box.left) * width, (box.bottom - box.top) * height
    place = [box.left * width, box.top * height, across, down]
    return {"category_id": box.category, "bbox": place, "area": across * down, "iscrowd": box.group}


def _images(archives: Sequence[Archive], work: Path) -> Iterator[tuple[str, int, int, list[boxes.Box]]]:
    """Id, width, height and boxes of each image, in the order of their ids."""
    for archive in archives:
        found = boxes.read(boxes.path_of(work, archive.split, archive.digit))
        for image, (width, height) in files.read_json(subset.sizes_path(work, archive)).items():
            yield image, width, height, found[image]


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Section and object of each line of a file that `write` wrote; raises ValueError or KeyError for another one."""
    section = ""
    with path.open(encoding="utf-8") as file:
        for line in file:
            line = line.strip().rstrip(",")
            if line.endswith(": ["):
                section = line.partition('"')[2].partition('"')[0]
            elif line.startswith('{"id"'):
                yield section, json.loads(line)
