"""Drawn images of the subset once more, plainly: their bytes from the archives, their boxes from the lists."""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterable
from pathlib import Path

import simplejpeg

from podium.data.again import Again, Sample
from podium.data.openimages import labels, source


def rederive(sample: Sample) -> Again:
    """Make drawn images of the validation set and of one drawn archive of the training set again and compare them."""
    found, items, problems = source.find(sample.source), 0, []
    training = sample.random.choice([archive for archive in found.archives if archive.split == "train"])
    for archive in (training, found.archives[-1]):
        there = _labels(sample.folder, archive)
        drawn = sample.drawn(sorted(there))
        (listed,) = (one.path for one in found.lists if one.split == archive.split)
        images, wanted = _images(archive.path, drawn), _boxes(listed, drawn)
        for name in drawn:
            content = (sample.folder / archive.split / "data" / name).read_bytes()
            if content != images.get(name):
                problems.append(f"{archive.split}/data/{name}: expected the bytes in {archive.path.name}, found others")
                continue
            height, width, _, _ = simplejpeg.decode_jpeg_header(content)
            if there[name] != [
                [n, x * width, y * height, w * width, h * height, c] for n, x, y, w, h, c in wanted[name]
            ]:
                problems.append(f"{archive.split}: expected the boxes of {name} in {listed.name}, found others")
        items += len(drawn)
    return Again(items, problems)


def _labels(folder: Path, archive: source.Archive) -> dict[str, list[list[float]]]:
    """The boxes of each image that is from an archive, by the name of its file."""
    names: dict[int, str] = {}
    found: dict[str, list[list[float]]] = {}
    for section, item in labels.read(labels.path_of(folder, archive.split)):
        if section == "images" and item["file_name"].startswith(archive.digit):
            names[item["id"]] = item["file_name"]
            found[item["file_name"]] = []
        elif section == "annotations" and item["image_id"] in names:
            found[names[item["image_id"]]].append([item["category_id"], *item["bbox"], item["iscrowd"]])
    return found


def _images(archive: Path, names: Iterable[str]) -> dict[str, bytes]:
    with tarfile.open(archive, "r|gz") as members:
        wanted = set(names)
        return {
            name: members.extractfile(member).read()
            for member in members
            if (name := member.name.rpartition("/")[2]) in wanted
        }


def _boxes(listed: Path, names: Iterable[str]) -> dict[str, list[list[float]]]:
    """Class, left, top, width, height and crowd of each image's boxes."""
    descriptions = listed.with_name(source.DESCRIPTIONS)
    with descriptions.open(encoding="utf-8", newline="") as file:
        labels_of = {name: label for label, name in csv.reader(file)}
    numbers = {labels_of[name]: number for number, name in enumerate(source.names())}
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with listed.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = f"{row['ImageID']}.jpg"
            if name in found and row["LabelName"] in numbers:
                left, right, top, bottom = (float(row[key]) for key in ("XMin", "XMax", "YMin", "YMax"))
                place = [left, top, right - left, bottom - top]
                found[name].append([numbers[row["LabelName"]], *place, int(row["IsGroupOf"])])
    return found
