"""`make bench-train`: how fast the implementations feed and train a device; one line a step.

`bench train <step> value=<rate> bar=<rate> ok|short`; exit status 1 where any is short. Rates of the CPU are per second
of one core's own time, so that other load does no harm. Needs the implementations' requirements.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import simplejpeg
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from implementations.implementation import CONTAINERS, config, modules

# Samples/s of one H200 among eight, evaluation included: results of MLPerf Training 4.0.
PUBLISHED = {"resnet": 7770.0, "unet3d": 66.9}
FIRST_BAR = 0.4  # of it
INPUT_SHARE = 0.65  # of the rate of plain decoding that is left with reading, cropping and resizing
UNET_WORKERS = 8  # of the configs; together they feed one device at the published rate
Row = tuple[str, float, float]


def pictures(count: int) -> list[bytes]:
    """JPEGs of ImageNet's usual 500 x 375 pixels and 110 kB: noise on all scales."""
    random = np.random.default_rng(0)
    encoded = []
    for _ in range(count):
        picture = random.normal(128, 14, size=(375, 500, 3))
        for scale in (4, 16, 64):
            coarse = random.normal(0, 16, size=(375 // scale + 1, 500 // scale + 1, 3))
            picture += np.kron(coarse, np.ones((scale, scale, 1)))[:375, :500]
        pixels = picture.clip(0, 255).astype(np.uint8)
        encoded.append(simplejpeg.encode_jpeg(pixels, quality=93, colorspace="RGB", colorsubsampling="420"))
    return encoded


def write_records(folder: Path, split: str, pictures: list[bytes]) -> None:
    """The layout `recordio` of these pictures."""
    offsets = [0]
    with (folder / f"{split}.rec").open("wb") as file:
        for number, picture in enumerate(pictures):
            content = struct.pack("<IfQQ", 0, number % 1000, number, 0) + picture
            record = struct.pack("<II", 0xCED7230A, len(content)) + content + bytes(-len(content) % 4)
            offsets.append(offsets[-1] + file.write(record))
    lines = (f"{number}\t{offset}\n" for number, offset in enumerate(offsets[:-1]))
    (folder / f"{split}.idx").write_text("".join(lines))


def rate(work: Callable[[], object], count: int, repeats: int = 5) -> float:
    """The best of some rates: `count` a piece of work by the CPU's time for it."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return count / min(seconds)


def resnet_input(resnet: SimpleNamespace) -> Iterator[Row]:
    """Reading, decoding, cropping and resizing for one core, against decoding alone."""
    encoded = pictures(32)
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        write_records(Path(place), "train", encoded)
        records = resnet.data.Records(Path(place), "train")
        share = resnet.data.Share(part=len(encoded))
        train = resnet.data.TrainParts(records, share, steps=1, accumulate=1, size=224, min_area=0.05, seed=1)
        evaluation = resnet.data.EvalParts(records, share, size=224, short_side=256)
        plain = rate(lambda: [simplejpeg.decode_jpeg(picture, "RGB") for picture in encoded], len(encoded))
        size = np.mean([len(picture) for picture in encoded]) / 1000
        print(f"bench train: plain libjpeg-turbo decodes {plain:.0f} images/s per core, of {size:.0f} kB")
        yield "resnet-train-images", rate(lambda: train[0], len(encoded)), INPUT_SHARE * plain
        yield "resnet-eval-images", rate(lambda: evaluation[0], len(encoded)), INPUT_SHARE * plain


def unet3d_input(unet3d: SimpleNamespace) -> Iterator[Row]:
    """Crops of 128 x 128 x 128 from mapped volumes for one core, against the share of a worker."""
    random = np.random.default_rng(0)
    shape = (1, 160, 300, 300)
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        label = np.zeros(shape, np.uint8)
        label[:, 60:100, 80:140, 180:240], label[:, 70:90, 100:120, 200:220] = 1, 2
        for number in range(2):
            np.save(Path(place) / f"case_{number:05d}_x.npy", random.standard_normal(shape, np.float32))
            np.save(Path(place) / f"case_{number:05d}_y.npy", label)
        (Path(place) / "train_cases.txt").write_text("00000\n00001\n")
        window = (128, 128, 128)
        cases = unet3d.data.open_cases(Path(place), "train", window)
        yield "unet3d-foregrounds", rate(lambda: boxes(cases), len(cases)), 1.0
        parts = unet3d.data.TrainParts(
            cases, part=2, rank=0, size=1, steps=1, accumulate=1, window=window, oversampling=0.4, seed=1
        )
        crops = rate(lambda: [parts[number] for number in range(20)], 40)
        yield "unet3d-crops", crops, PUBLISHED["unet3d"] / UNET_WORKERS


def boxes(cases: list) -> None:
    """Search every case anew."""
    for case in cases:
        case.__dict__.pop("foreground", None)
        case.foreground  # noqa: B018


def training_rate(benchmark: str, modules: SimpleNamespace, device: torch.device, steps: int) -> float:
    """Samples per second of one device that takes `steps` of the implementation's own steps on generated data."""
    settings = modules.common.contract.read_settings(modules.train.Settings)
    contract = SimpleNamespace(seed=1, data_dir=Path())
    part = settings.part(1)
    settings = dataclasses.replace(settings, train_samples=steps * settings.global_batch_size)
    if benchmark == "resnet":
        size = settings.image_size
        inputs = torch.randint(256, (part, 3, size, size), dtype=torch.uint8), torch.randint(settings.classes, (part,))
    else:
        shape = settings.training_input_shape
        inputs = torch.randn(part, 1, *shape), torch.randint(3, (part, *shape), dtype=torch.uint8)
    trainer = modules.train.Trainer(contract, settings, modules.common.distributed.World(device=device))
    trainer.train_parts = itertools.repeat(inputs)
    trainer.train(1)  # the first steps are slower
    started = time.monotonic()
    trainer.train(2)
    return steps * settings.global_batch_size / (time.monotonic() - started)


def device_row(benchmark: str, modules: SimpleNamespace) -> Row:
    """One GPU with the config for one, against the published rate of an H200."""
    os.environ |= config(CONTAINERS / benchmark / "configs" / "1xH200.env")
    value = training_rate(benchmark, modules, torch.device("cuda", 0), steps=6)
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"bench train: {benchmark} on {torch.cuda.get_device_name()}, peak memory {peak:.1f} GiB")
    return f"{benchmark}-training", value, FIRST_BAR * PUBLISHED[benchmark]


def main() -> int:
    torch.set_num_threads(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=CONTAINERS, capture_output=True, text=True)
    machine = platform.processor() or platform.machine()
    print(f"bench machine: {machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {commit.stdout.strip()}")
    short = False
    for benchmark, feed in (("resnet", resnet_input), ("unet3d", unet3d_input)):
        with modules(CONTAINERS / benchmark) as loaded:
            rows = [*feed(loaded)]
            if torch.cuda.is_available():
                rows.append(device_row(benchmark, loaded))
            for name, value, bar in rows:
                print(f"bench train {name} value={value:.1f} bar={bar:.1f} {'ok' if value >= bar else 'short'}")
                short |= value < bar
    if not torch.cuda.is_available():
        print("bench train: no GPU here, so the rates and the memory of training on one are open")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
