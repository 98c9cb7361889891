"""ImageNet (ILSVRC 2012 classification) from any form in which it is handed around to the layouts that are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium.data.imagenet import checks, folder, parts, recordio, source, tfrecord, webdataset
from podium.data.imagenet.again import rederive
from podium.data.imagenet.source import FORMS
from podium.data.job import Job
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {
    "recordio": "MXNet: train.{lst,rec,idx} and val.{lst,rec,idx}, the files untouched, labels from 0",
    "tfrecord": "TensorFlow: {train,validation}-00000-of-N, PNG and CMYK re-encoded, labels from 1",
    "folder": "PyTorch ImageFolder: {train,val}/<wnid>/*.JPEG, the files untouched",
    "webdataset": "imagenet-{train,val}-000000.tar of .jpg and .cls, PNG and CMYK re-encoded, labels from 0",
}
PARAMS = {
    "shards": "number of files of tfrecord and webdataset (default: {train: 1024, validation: 128})",
    "take": "only the first N images of each class in both splits: a subset for tests (default: all)",
    "undecodable": "images that cannot be decoded: error (default), drop, keep (recordio and folder); all are named",
    "decode": "true: decode every image in full; false (default): headers and end markers, about 10x as fast",
}
_MODULES = {"recordio": recordio, "tfrecord": tfrecord, "folder": folder, "webdataset": webdataset}


def prepare(job: Job) -> dict[str, Any]:
    """Write one layout of the ImageNet below `job.source`; the bytes do not depend on `job.workers`.

    Returns images per split, classes, images per class (least, most), bytes of the images, the PNG and CMYK files by
    name, those left out with reasons, and files that are no images. Raises BadInput for a wrong source or parameter.
    """
    params = _params(job.params, job.layout)
    found = source.find(job.source)
    if params.take:
        found = source.take(found, params.take)
    parts.begin(job.to, found, params)
    made = _MODULES[job.layout].write(found, job.to, params, job.workers)
    parts.forget(job.to)
    total = parts.Part()
    for part in made.values():
        total.add(part)
    return {
        "train": made["train"].images,
        "val": made["val"].images,
        "classes": len(found.classes),
        "train_per_class": _per_class(found.train),
        "val_per_class": _per_class(found.val),
        "image_bytes": total.bytes,
        "form": found.form,
        "png": sorted(total.png),
        "cmyk": sorted(total.cmyk),
        "undecodable": dict(sorted(total.undecodable.items())),
        "ignored": found.ignored,
    }


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything in a written layout that contradicts its format or its counts, one sentence each.

    Every record is read: magic words or crc32c, labels and their base, offsets, names, JPEG headers and end markers;
    images in all, of each class and in each shard, and their bytes.
    """
    splits = _MODULES[layout].read(folder, counts)
    return [problem for split in splits for problem in split.finish()] + checks.together(splits, counts)


def _per_class(images: list[source.Image]) -> list[int]:
    """The least and the most images that a class has."""
    sizes = Counter(image.wnid for image in images).values()
    return [min(sizes), max(sizes)]


def _params(given: Mapping[str, Any], layout: str) -> parts.Params:
    params = parts.Params(**given)
    policies = ("error", "drop", "keep") if layout in ("recordio", "folder") else ("error", "drop")
    checks = {
        "shards": ("numbers of files, such as {train: 1024, validation: 128}", _are_shards(params.shards)),
        "undecodable": (" or ".join(policies), params.undecodable in policies),
        "decode": ("true or false", isinstance(params.decode, bool)),
    }
    for name, (expected, good) in checks.items():
        if not good:
            raise BadInput(f"parameter {name}", expected, repr(given[name]), "podium prepare --help")
    return params


def _are_shards(value: Any) -> bool:
    splits = {"train", "validation"}
    return isinstance(value, dict) and value.keys() == splits and all(_is_number(n, 1) for n in value.values())


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
