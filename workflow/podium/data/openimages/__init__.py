"""Open Images for retinanet: from the archives of all images to those with a box of one of MLPerf's 264 classes."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

from podium import files
from podium.data.job import Job
from podium.data.openimages import boxes, labels, source, subset
from podium.data.openimages.again import rederive
from podium.data.openimages.check import invariants
from podium.data.openimages.source import FORMS
from podium.data.tasks import runner

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {
    "coco": "{train,validation}/data/*.jpg and labels/openimages-mlperf.json in COCO's form, classes from 0",
}
PARAMS = {"take": "only the first N images of each archive: a subset for tests (default: all)"}
WORK = "work"  # folder of what is needed until all is done
_KEPT = 0.7  # bytes of the subset for each byte of the archives: 352 of 524 GB


def prepare(job: Job) -> dict[str, Any]:
    """Write the images of the subset and their boxes below `job.to`; the bytes do not depend on `job.workers`.

    Returns images and boxes of each split, and classes. Raises BadInput for a source that is damaged or not complete.
    """
    found = source.find(job.source)
    work, take = job.to / WORK, job.params.get("take", 0)
    if not take:
        there = sum((job.to / path).stat().st_size for path in files.walk(job.to))
        archived = sum(archive.path.stat().st_size for archive in found.archives)
        files.need_space(job.to, int(archived * _KEPT) - there, f"the images in {job.to}")
    with runner(job.workers) as run:
        run([partial(boxes.split, one, found.numbers, work) for one in found.lists], "boxes")
        run([partial(subset.extract, one, job.to, work, take) for one in found.archives], "images")
    counts: dict[str, Any] = {"classes": len(found.numbers)}
    for split in source.SPLITS:
        counts |= labels.write(job.to, split, [one for one in found.archives if one.split == split], work)
    shutil.rmtree(work)
    return counts
