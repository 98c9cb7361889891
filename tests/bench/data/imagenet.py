"""ImageNet to RecordIO and TFRecord against `md5sum` and a copy of the same tar, by the clock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from measure import MEMORY, SAMPLES, Bench, missing

from podium.data import imagenet
from podium.data.formats import tar
from podium.data.job import Job

PICTURES = ("china.jpg", "flower.jpg", "skimage_rocket.jpg")  # 110 to 200 kB, as in ImageNet on average
CLASSES, IMAGES, MANY = 20, 200, 800  # of a class; many to see how two workers share, beyond their start
PARAMS = {"recordio": {}, "tfrecord": {"shards": {"train": 8, "validation": 1}}}


def run(bench: Bench, scratch: Path) -> None:
    folder = SAMPLES / "jpeg_odd"
    if reason := missing(folder):
        bench.skip("imagenet", reason)
        return
    source, to = scratch / "source", scratch / "to"
    size = make([(folder / name).read_bytes() for name in PICTURES], source)
    archive = source / "train.tar"

    def prepare(layout: str, to: Path, workers: int = 1, source: Path = source) -> None:
        imagenet.prepare(Job(source, layout, to, PARAMS[layout], workers))

    def copy() -> None:
        command = ["dd", f"if={archive}", f"of={to / 'copy'}", "bs=1M", "conv=fsync", "status=none"]
        subprocess.run(command, check=True)

    subprocess.run(["md5sum", archive], check=True, stdout=subprocess.DEVNULL)  # into the page cache
    costs = bench.costs(
        {
            "md5sum": lambda: subprocess.run(["md5sum", archive], check=True, stdout=subprocess.DEVNULL),
            "copy": copy,
            "recordio": lambda: prepare("recordio", to),
            "tfrecord": lambda: prepare("tfrecord", to),
        },
        to,
    )
    shutil.rmtree(to)
    slower = max(costs["md5sum"].wall, costs["copy"].wall)
    rates = ", ".join(
        f"{name} {size / cost.wall / 1e6:.0f} MB/s ({size / cost.cpu / 1e6:.0f} a CPU second)"
        for name, cost in costs.items()
    )
    for layout in PARAMS:
        how = f"{size / 1e6:.0f} MB, 1 worker, without the manifest: {rates}"
        bench.step(f"imagenet-{layout}", slower / costs[layout].wall, 0.7, how)
    if MEMORY.is_dir():
        there, much = MEMORY / scratch.name, scratch / "much"
        make([(folder / name).read_bytes() for name in PICTURES], much, MANY)
        bench.scaling(
            "imagenet-tfrecord",
            lambda workers, to: prepare("tfrecord", to, workers, much),
            there,
            "podium.data.imagenet",
        )
        shutil.rmtree(there)


def make(pictures: list[bytes], to: Path, each: int = IMAGES) -> int:
    """Write train.tar, val.tar and the labels; returns the bytes of the images."""
    to.mkdir()
    wnids = [f"n{number:08d}" for number in range(CLASSES)]
    size = 0
    with (to / "train.tar").open("wb") as file:
        for wnid in wnids:
            images = [(f"{wnid}_{number}.JPEG", pictures[number % len(pictures)]) for number in range(each)]
            size += sum(len(data) for _, data in images)
            inner = b"".join(piece for name, data in images for piece in tar.frame(name, data)) + tar.END
            file.writelines(tar.frame(f"{wnid}.tar", inner))
        file.write(tar.END)
    with (to / "val.tar").open("wb") as file:
        for number in range(CLASSES):
            file.writelines(tar.frame(f"ILSVRC2012_val_{number:08d}.JPEG", pictures[0]))
        file.write(tar.END)
    (to / "labels.txt").write_text("".join(f"{wnid}\n" for wnid in wnids))
    return size + CLASSES * len(pictures[0])
