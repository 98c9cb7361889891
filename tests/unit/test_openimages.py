"""Open Images: the subset of MLPerf's classes from archives and lists, what is refused, and what the checks find."""

import csv
import gzip
import io
import json
import random
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from podium.data import openimages
from podium.data.again import Again, Sample
from podium.data.job import Job
from podium.data.openimages import source
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

HEAD = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
OTHERS = ["Accordion", "Ant"]  # of the 600 classes, but not of MLPerf's


def picture(seed: int, width: int, height: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels, quality=60)


def archive(path: Path, images: dict[str, bytes]) -> None:
    folder = path.name.removesuffix(".tar.gz")
    with gzip.GzipFile(path, "wb", 1, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as members:
        for name, content in images.items():
            member = tarfile.TarInfo(f"{folder}/{name}.jpg")
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))


def box(image: str, label: str, left: float, right: float, top: float, bottom: float, group: int = 0) -> str:
    return f"{image},xclick,{label},1,{left},{right},{top},{bottom},0,0,{group},0,0"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """All files of a source: in each archive five images, of which two have boxes of MLPerf's classes."""
    folder = tmp_path_factory.mktemp("openimages")
    labels = {name: f"/m/{number:04x}" for number, name in enumerate([*source.names(), *OTHERS])}
    with (folder / source.DESCRIPTIONS).open("w", newline="") as file:
        csv.writer(file).writerows((label, name) for name, label in labels.items())
    lines: dict[str, list[str]] = {"train": [HEAD], "validation": [HEAD]}
    for number, place in enumerate([*source.DIGITS, "validation"]):
        split, digit = ("train", place) if len(place) == 1 else ("validation", "a")
        names = [f"{digit}{number:014x}{image}" for image in range(5)]
        images = {name: picture(number, 40 + number, 30) for name in reversed(names)}
        archive(folder / (f"train_{digit}.tar.gz" if split == "train" else "validation.tar.gz"), images)
        lines[split] += [
            box(names[0], labels["Zebra"], 0.25, 0.5, 0, 1),
            box(names[1], labels["Ant"], 0, 1, 0, 1),
            box(names[2], labels["Airplane"], 0.1, 0.9, 0.5, 0.75, 1),
            box(names[2], labels["Accordion"], 0, 1, 0, 1),
            box(names[0], labels["Apple"], 0, 0.123456, 0, 1),
        ]
    for split, text in lines.items():
        (folder / f"{split}-annotations-bbox.csv").write_text("\n".join(text) + "\n")
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture(scope="module")
def prepared(made, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("prepared")
    return folder, prepare(made, folder)


@pytest.fixture
def copied(prepared, tmp_path) -> tuple[Path, dict]:
    return shutil.copytree(prepared[0], tmp_path / "copied"), prepared[1]


def prepare(made: Path, to: Path, workers: int = 1, **params) -> dict:
    return openimages.prepare(Job(made, "coco", to, params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


def test_the_subset_has_the_images_with_a_box_of_the_264_classes(prepared):
    folder, counts = prepared
    assert counts == {
        "classes": 264,
        "train_images": 32,
        "train_boxes": 48,
        "validation_images": 2,
        "validation_boxes": 3,
    }
    assert openimages.invariants(folder, "coco", counts) == []
    assert sorted(path.name for path in (folder / "validation" / "data").iterdir()) == [
        "a000000000000100.jpg",
        "a000000000000102.jpg",
    ]
    assert not (folder / "work").exists()


def test_boxes_are_in_pixels_and_classes_count_from_0(prepared):
    found = json.loads((prepared[0] / "validation" / "labels" / "openimages-mlperf.json").read_text())
    assert found["categories"][0] == {"id": 0, "name": "Airplane", "supercategory": None}
    assert [item["id"] for item in found["categories"]] == list(range(264))
    assert found["images"][0] == {"id": 1, "file_name": "a000000000000100.jpg", "width": 56, "height": 30}
    names = [item["name"] for item in found["categories"]]
    assert found["annotations"] == [
        {
            "id": 1,
            "image_id": 1,
            "category_id": names.index("Zebra"),
            "bbox": [14, 0, 14, 30],
            "area": 420,
            "iscrowd": 0,
        },
        {
            **{"id": 2, "image_id": 1, "category_id": names.index("Apple"), "iscrowd": 0},
            **{"bbox": [0, 0, 0.123456 * 56, 30], "area": 0.123456 * 56 * 30},
        },
        {
            **{"id": 3, "image_id": 2, "category_id": 0, "iscrowd": 1},
            **{"bbox": [0.1 * 56, 15, (0.9 - 0.1) * 56, 7.5], "area": (0.9 - 0.1) * 56 * 7.5},
        },
    ]


def test_the_bytes_do_not_depend_on_the_workers(made, prepared, tmp_path):
    assert prepare(made, tmp_path, workers=3) == prepared[1]
    assert content(tmp_path) == content(prepared[0])


def test_an_interrupted_try_is_gone_on_with(made, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(openimages.labels, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(made, tmp_path)
    monkeypatch.undo()
    (tmp_path / "work" / "sizes" / "train_3.json").unlink()
    half = next((tmp_path / "train" / "data").glob("3*.jpg"))
    half.write_bytes(half.read_bytes()[:100])
    kept = next((tmp_path / "train" / "data").glob("4*.jpg"))
    before = kept.stat().st_mtime_ns
    assert prepare(made, tmp_path) == prepared[1]
    assert content(tmp_path) == content(prepared[0])
    assert kept.stat().st_mtime_ns == before


def test_take_takes_the_first_images_of_each_archive(made, tmp_path):
    counts = prepare(made, tmp_path, take=1)
    assert (counts["train_images"], counts["validation_images"]) == (16, 1)
    assert openimages.invariants(tmp_path, "coco", counts) == []


def rewrite(name: str, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def packed(change):
    """The archive train_3 with other images."""

    def spoil(folder: Path) -> None:
        names = [f"3{3:014x}{image}" for image in range(5)]
        archive(folder / "train_3.tar.gz", change({name: picture(3, 43, 30) for name in names}))

    return spoil


TRAIN = "train-annotations-bbox.csv"
BAD = {
    "a list is missing": (lambda folder: (folder / TRAIN).unlink(), f"no {TRAIN}"),
    "an archive is missing": (lambda folder: (folder / "train_7.tar.gz").unlink(), "no train_7.tar.gz"),
    "an archive is cut": (rewrite("train_3.tar.gz", lambda data: data[:-30]), ""),
    "an archive is another one": (lambda f: shutil.copy(f / "train_4.tar.gz", f / "train_3.tar.gz"), "2 of 2 missing"),
    "an error page as archive": (rewrite("train_3.tar.gz", lambda _: b"<html>404 Not Found</html>"), "gzip"),
    "a wrong checksum": (rewrite("train_3.tar.gz", lambda data: data[:-8] + b"\0\0\0\0" + data[-4:]), ""),
    "an image is missing": (packed(lambda images: dict(list(images.items())[1:])), "1 of 2 missing"),
    "an image is none": (packed(lambda images: {name: b"<html>" for name in images}), "no JPEG"),
    "an image is cut": (packed(lambda images: {name: data[:-200] for name, data in images.items()}), ""),
    "other columns": (rewrite(TRAIN, lambda data: data.replace(b"XMin", b"xmin")), "'XMin' is not in list"),
    "a place that is none": (rewrite(TRAIN, lambda data: data.replace(b"0.25,0.5", b"0.25,x", 1)), "in line 2"),
    "a place out of the image": (
        rewrite(TRAIN, lambda data: data.replace(b"0.25,0.5", b"0.25,1.5", 1)),
        "out of the image",
    ),
    "a line that is cut": (rewrite(TRAIN, lambda data: data[:-30]), "3 columns instead of 13"),
    "an empty list": (rewrite(TRAIN, lambda _: b""), "is not in list"),
    "other classes": (rewrite(source.DESCRIPTIONS, lambda data: data.replace(b"Zebra", b"Horse2")), "such as Zebra"),
}


@pytest.mark.parametrize("spoil, found", BAD.values(), ids=BAD)
def test_a_bad_source_is_refused(spoiled, tmp_path, spoil, found):
    spoil(spoiled)
    with pytest.raises(BadInput) as error:
        prepare(spoiled, tmp_path / "to")
    assert found in error.value.found


def test_an_image_that_is_there_twice_is_refused(made, spoiled, tmp_path):
    whole = gzip.decompress((made / "train_3.tar.gz").read_bytes()).rstrip(b"\0")
    members = whole + bytes(-len(whole) % 512)
    (spoiled / "train_3.tar.gz").write_bytes(gzip.compress(members + members + bytes(1024)))
    with pytest.raises(BadInput, match="is there twice"):
        prepare(spoiled, tmp_path / "to")


def test_a_disk_that_is_too_small_is_noticed_first(made, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(made, tmp_path / "to")


def edit(change):
    def spoil(folder: Path) -> None:
        path = folder / "validation" / "labels" / "openimages-mlperf.json"
        path.write_text(change(path.read_text()))

    return spoil


IMAGE = "validation/data/a000000000000100.jpg"
WRONG = {
    "an image is missing": (lambda folder: (folder / IMAGE).unlink(), f"{IMAGE}: expected a whole JPEG"),
    "an image is cut": (rewrite(IMAGE, lambda data: data[:-100]), f"{IMAGE}: expected a whole JPEG"),
    "an image is another": (rewrite(IMAGE, lambda _: picture(1, 9, 9)), f"{IMAGE}: expected 56 x 30 pixels"),
    "a stray": (
        lambda folder: (folder / "train" / "data" / "x.txt").touch(),
        "train/data/x.txt: expected no such file",
    ),
    "a class": (edit(lambda text: text.replace('"category_id": 0', '"category_id": 264')), "a class of MLPerf's"),
    "the order of classes": (edit(lambda text: text.replace('"Airplane"', '"Aeroplane"')), "264 classes in order"),
    "a place": (edit(lambda text: text.replace('"bbox": [14.0', '"bbox": [94.0')), "a place in 56 x 30 pixels"),
    "a box of no image": (edit(lambda text: text.replace('"image_id": 2', '"image_id": 9')), "found number 9"),
    "no box": (edit(lambda text: text.replace('"image_id": 2', '"image_id": 1')), "1 without, such as 2"),
    "no labels": (edit(lambda _: "{}"), "validation: expected 2 images, found 0"),
    "broken labels": (edit(lambda text: text.replace('"width": 56', '"width": ')), "in COCO's form"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(copied, spoil, expected):
    folder, counts = copied
    spoil(folder)
    assert any(expected in problem for problem in openimages.invariants(folder, "coco", counts))


def again(made: Path, folder: Path, counts: dict) -> Again:
    return openimages.rederive(Sample(made, folder, "coco", Manifest((), counts), random.Random(0)))


def test_images_made_again_are_those_of_the_subset(made, prepared):
    assert again(made, *prepared) == Again(4, [])


@pytest.mark.parametrize(
    "spoil, expected",
    [
        (rewrite(IMAGE, lambda _: picture(1, 56, 30)), f"{IMAGE}: expected the bytes in validation.tar.gz"),
        (
            edit(lambda text: text.replace('"bbox": [14.0', '"bbox": [14.5')),
            "expected the boxes of a000000000000100.jpg",
        ),
    ],
)
def test_other_pixels_and_boxes_are_found(made, copied, spoil, expected):
    folder, counts = copied
    spoil(folder)
    assert any(expected in problem for problem in again(made, folder, counts).problems)
