"""The demo's ImageNet: the form in which ImageNet is distributed, the same bytes each time, pictures that differ."""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from podium.data import imagenet as prepared
from podium.data.demo import imagenet
from podium.data.job import Job


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imagenet")
    imagenet.make(folder)
    return folder


def members(archive: Path | bytes) -> dict[str, bytes]:
    file = io.BytesIO(archive if isinstance(archive, bytes) else archive.read_bytes())
    with tarfile.open(fileobj=file) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def test_two_calls_write_the_same_bytes(source, tmp_path):
    imagenet.make(tmp_path)
    names = sorted(path.name for path in source.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert all((source / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_training_is_a_tar_of_one_tar_per_class(source):
    classes = members(source / "ILSVRC2012_img_train.tar")
    assert len(classes) == 8 and all(re.fullmatch(r"n\d{8}\.tar", name) for name in classes)
    for name, archive in classes.items():
        pictures = members(archive)
        assert len(pictures) == 64
        assert all(re.fullmatch(rf"{name[:-4]}_\d+\.JPEG", picture) for picture in pictures)


def test_validation_is_a_flat_tar_with_its_labels_beside_it(source):
    pictures = members(source / "ILSVRC2012_img_val.tar")
    labels = (source / "imagenet_2012_validation_synset_labels.txt").read_text().splitlines()
    assert list(pictures) == [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, 161)]
    assert set(Counter(labels).values()) == {20} and len(labels) == 160
    assert labels != sorted(labels)


def test_pictures_are_small_different_colour_jpegs(source):
    pictures = [
        content
        for archive in members(source / "ILSVRC2012_img_train.tar").values()
        for content in members(archive).values()
    ]
    pictures += members(source / "ILSVRC2012_img_val.tar").values()
    assert len(set(pictures)) == 512 + 160
    shapes = {simplejpeg.decode_jpeg_header(picture)[:2] for picture in pictures}
    assert min(min(shape) for shape in shapes) == 36 and max(max(shape) for shape in shapes) == 44
    assert np.ptp(simplejpeg.decode_jpeg(pictures[0]), axis=(0, 1)).min() > 50


def test_the_pipeline_prepares_it_like_the_real_one(source, tmp_path):
    counts = prepared.prepare(Job(source, "recordio", tmp_path))
    assert (counts["train"], counts["val"], counts["classes"]) == (512, 160, 8)
    assert prepared.invariants(tmp_path, "recordio", counts) == []
