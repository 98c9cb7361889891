"""Where ImageNet's images are: every form in which the set is handed around, brought to one list of images.

Nothing is unpacked. A tar is read by its headers alone, and an image is a place in a file: a path, an offset, a size.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

from podium.data.formats import tar
from podium.data.imagenet import labels
from podium.errors import BadInput

FORMS = {
    "tars": "train tar of <wnid>.tar, flat or foldered validation tar, and the validation labels",
    "folders": "train/<wnid>/*.JPEG (or train/<wnid>.tar), validation images flat with labels or in <wnid>/ folders",
    "kaggle": "ILSVRC/Data/CLS-LOC/{train/<wnid>,val} and LOC_val_solution.csv",
}

SUFFIXES = (".jpeg", ".jpg")  # im2rec's list
WNID = re.compile(r"n\d{8}")
KAGGLE = Path("ILSVRC/Data/CLS-LOC")
_NEXT = "see the README of the data set: workflow/catalog/datasets/imagenet.md"


@dataclass(frozen=True, slots=True)
class Image:
    """An image file: its class, its name without folders, and where its bytes are."""

    wnid: str
    name: str
    path: str
    offset: int
    size: int

    @property
    def relative(self) -> str:
        """`<wnid>/<name>`, the path below train/ or val/ in the extracted set."""
        return f"{self.wnid}/{self.name}"


@dataclass(frozen=True)
class Source:
    """Both splits, each sorted by (wnid, name); `ignored` names the files that are no images."""

    form: str
    train: list[Image]
    val: list[Image]
    ignored: list[str]

    @property
    def classes(self) -> list[str]:
        """The wnids in sorted order: the label of a class is its place in it, counted from 0 or from 1."""
        return sorted({image.wnid for image in self.train})


def find(folder: Path) -> Source:
    """Index the ImageNet below `folder`, whatever its form.

    Raises BadInput for a folder without both splits, for a bad tar, for names that occur twice or lie in the wrong
    class, for classes that only one split has, and for labels that do not fit the validation images.
    """
    form, train_place, val_place = _places(folder)
    ignored: list[str] = []
    train = list(_train(train_place, ignored))
    val = _with_labels(list(_flat_or_foldered(val_place, ignored)), folder, val_place)
    for split, place, images in (("training", train_place, train), ("validation", val_place, val)):
        if not images:
            raise BadInput(f"no {split} images in {place}", "JPEG files in class folders", "none", f"ls -lR {place}")
        images.sort(key=attrgetter("wnid", "name"))
        _check_names(images, place)
    check_classes(train, val)
    return Source(form, train, val, sorted(ignored))


def take(source: Source, number: int) -> Source:
    """The first `number` images of each class in both splits."""

    def some(images: list[Image]) -> list[Image]:
        return [image for _, group in groupby(images, attrgetter("wnid")) for image in islice(group, number)]

    return replace(source, train=some(source.train), val=some(source.val))


def contents(images: Iterable[Image]) -> Iterator[tuple[Image, bytes]]:
    """Each image with its bytes; raises BadInput when a file is shorter than it was when it was indexed."""
    for path, group in groupby(images, attrgetter("path")):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (1.3 million times: a Path would cost as much again)
            for image in group:
                data = os.pread(file.fileno(), image.size, image.offset)
                if len(data) != image.size:
                    raise BadInput(
                        f"{path} changed while it was read",
                        f"{image.size} bytes of {image.relative}",
                        f"{len(data)}",
                        _NEXT,
                    )
                yield image, data


def _places(folder: Path) -> tuple[str, Path, Path]:
    """The form and where each split is; raises BadInput when a split is missing or lies there twice."""
    root = folder / KAGGLE if (folder / KAGGLE).is_dir() else folder
    tars = [path for path in sorted(root.glob("*.tar")) if not path.stem.endswith("_t3")]  # task 3: 120 dogs
    train = _only("training", folder, [root / "train"], [path for path in tars if "train" in path.name])
    val = _only(
        "validation", folder, [root / "val", root / "validation"], [path for path in tars if "val" in path.name]
    )
    form = "kaggle" if root != folder else "tars" if train.is_file() else "folders"
    return form, train, val


def _only(split: str, folder: Path, folders: list[Path], tars: list[Path]) -> Path:
    found = [place for place in folders if place.is_dir()] + tars
    if len(found) != 1:
        raise BadInput(
            f"{folder}: the {split} images cannot be found",
            f"one of {', '.join(place.name for place in folders)}/ or a tar with {folders[0].name} in its name",
            ", ".join(place.name for place in found) or "none of them",
            f"ls -l {folder}; {_NEXT}",
        )
    return found[0]


def _train(place: Path, ignored: list[str]) -> Iterator[Image]:
    """Training images: a tar of <wnid>.tar, or a folder of <wnid>/ or <wnid>.tar."""
    if place.is_dir():
        for entry in sorted(place.iterdir()):
            if entry.is_dir() and WNID.fullmatch(entry.name):
                yield from _in_folder(entry, entry.name, ignored)
            elif entry.suffix == ".tar" and WNID.fullmatch(entry.stem):
                yield from _in_tar(entry, entry.stem, tar.members(entry), ignored)
            else:
                ignored.append(f"{place.name}/{entry.name}")
        return
    seen: set[str] = set()
    for inner in tar.members(place):
        wnid = Path(inner.name).stem
        if not (inner.name.endswith(".tar") and WNID.fullmatch(wnid)):
            ignored.append(f"{place.name}: {inner.name}")
            continue
        if wnid in seen:
            raise BadInput(f"{place}: {inner.name} twice", "each class once", "two tars of one class", "fetch it again")
        seen.add(wnid)
        yield from _in_tar(place, wnid, tar.members(place, inner.name, inner.offset, inner.size), ignored)


def _flat_or_foldered(place: Path, ignored: list[str]) -> Iterator[Image]:
    """Validation images; those that lie in no <wnid>/ folder have the class "" until their label is known."""
    if place.is_file():
        for member in tar.members(place):
            parent = Path(member.name).parent.name
            yield from _in_tar(place, parent if WNID.fullmatch(parent) else "", [member], ignored)
        return
    yield from _in_folder(place, "", ignored)
    for entry in sorted(place.iterdir()):
        if entry.is_dir() and WNID.fullmatch(entry.name):
            yield from _in_folder(entry, entry.name, ignored)


def _in_folder(folder: Path, wnid: str, ignored: list[str]) -> Iterator[Image]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(SUFFIXES) and entry.is_file():
                yield Image(wnid, entry.name, entry.path, 0, entry.stat().st_size)
            elif not (entry.is_dir() and WNID.fullmatch(entry.name)):
                ignored.append(f"{folder.name}/{entry.name}")


def _in_tar(path: Path, wnid: str, members: Iterable[tar.Member], ignored: list[str]) -> Iterator[Image]:
    shown = str(path)
    for name, offset, size in members:
        if name.lower().endswith(SUFFIXES):
            yield Image(wnid, name.rpartition("/")[2], shown, offset, size)
        else:
            ignored.append(f"{path.name}: {name}")


def _with_labels(images: list[Image], folder: Path, place: Path) -> list[Image]:
    """Give flat validation images their classes: line i of the labels is image i in the order of names."""
    flat = [image for image in images if not image.wnid]
    if not flat:
        return images
    if len(flat) != len(images):
        raise BadInput(
            f"{place} is half in class folders",
            "all images flat, or all in <wnid>/ folders",
            f"{len(flat)} of {len(images)} flat, such as {flat[0].name}",
            "put all of them back into one folder",
        )
    flat.sort(key=attrgetter("name"))
    wnids = labels.of_validation(folder, [image.name for image in flat])
    return [
        Image(wnid, image.name, image.path, image.offset, image.size) for image, wnid in zip(flat, wnids, strict=True)
    ]


def _check_names(images: list[Image], place: Path) -> None:
    """Every name once in its class, and no name that begins with the wnid of another class."""
    twice = [name for name, times in Counter(image.relative for image in images).items() if times > 1]
    astray = [image.relative for image in images if WNID.match(image.name) and image.name[:9] != image.wnid]
    for what, names in (("twice", twice), ("in the folder of another class", astray)):
        if names:
            raise BadInput(
                f"{place}: images lie {what}",
                "each image once, in the folder of its class",
                f"{len(names)}: {', '.join(names[:10])}",
                "fetch it again",
            )


def check_classes(train: list[Image], val: list[Image]) -> None:
    """Both splits have the same classes; else im2rec would give a class different labels in the two files."""
    in_train, in_val = ({image.wnid for image in images} for images in (train, val))
    only_val, only_train = sorted(in_val - in_train), sorted(in_train - in_val)
    if only_val or only_train:
        shown = [f"{len(only_val)} only in validation ({', '.join(only_val[:5])})"] * bool(only_val)
        shown += [f"{len(only_train)} only in training ({', '.join(only_train[:5])})"] * bool(only_train)
        raise BadInput(
            "the splits have different classes",
            f"the same {len(in_train)} classes in both",
            " and ".join(shown),
            f"look for missing <wnid>.tar files or folders, or for a wrong labels list; {_NEXT}",
        )
    uneven = {wnid: times for wnid, times in Counter(image.wnid for image in val).items() if times != 50}
    if len(val) == 50_000 and uneven:
        shown = ", ".join(f"{wnid} has {times}" for wnid, times in sorted(uneven.items())[:5])
        raise BadInput(
            "the validation labels are wrong", "50 images of each class", f"{len(uneven)} differ: {shown}", _NEXT
        )
