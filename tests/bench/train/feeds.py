"""How fast one core feeds each network, against plain reading and against what a device asks for."""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import generated
import h5py
import numpy as np
import simplejpeg

from implementations.wikipedia import WRITERS

# Samples/s of one H200 among eight, evaluation included: results of MLPerf Training 4.0. rnnt: of one H100, 3.0.
PUBLISHED = {"resnet": 7770.0, "rnnt": 1715.0, "unet3d": 66.9, "bert": 995.0}
WORKERS = {"rnnt": 14, "unet3d": 8}  # of a device; together they feed it at the published rate, or nearly
INPUT_SHARE = 0.65  # of the rate of plain decoding that is left with reading, cropping and resizing
# Of the rate of plain reading what is left with checks and without padding; rows of one length are read by one copy.
READ_SHARE = {"fixed": 0.25, "variable": 0.65, "packed": 0.65}
FIRST_BAR = 0.4  # of the published rate
SEQUENCES = 6000
Row = tuple[str, float, float]


def rates(count: int, *works: Callable[[], object], repeats: int = 5) -> list[float]:
    """For each piece of work on `count` samples the best of some rates, by the CPU's time for it.

    They take turns, so that a busy moment of the machine meets all that are compared.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for taken, work in zip(seconds, works, strict=True):
            started = time.process_time()
            work()
            taken.append(time.process_time() - started)
    return [count / min(taken) for taken in seconds]


def resnet(modules: SimpleNamespace) -> Iterator[Row]:
    """Reading, decoding, cropping and resizing, against decoding alone."""
    encoded = generated.pictures(32)
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        generated.write_records(Path(place), "train", encoded)
        records = modules.data.Records(Path(place), "train")
        share = modules.data.Share(part=len(encoded))
        train = modules.data.TrainParts(records, share, steps=1, accumulate=1, size=224, min_area=0.05, seed=1)
        evaluation = modules.data.EvalParts(records, share, size=224, short_side=256)
        plain, training, evaluating = rates(
            len(encoded),
            lambda: [simplejpeg.decode_jpeg(picture, "RGB") for picture in encoded],
            lambda: train[0],
            lambda: evaluation[0],
        )
        size = np.mean([len(picture) for picture in encoded]) / 1000
        print(f"bench train: plain libjpeg-turbo decodes {plain:.0f} images/s per core, of {size:.0f} kB")
        yield "resnet-train-images", training, INPUT_SHARE * plain
        yield "resnet-eval-images", evaluating, INPUT_SHARE * plain


def rnnt(modules: SimpleNamespace) -> Iterator[Row]:
    """Reading, changing the speed, features and masks, against a worker's share of what a device asks for."""
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        paths = generated.write_speech(Path(place), 16)
        said = [modules.data.Utterance(path, generated.SECONDS, (0,) * generated.LABELS) for path in paths]
        speech = modules.loader.Speech(said, modules.settings.Settings(), seed=1)
        everyone = tuple(range(len(said)))
        plain, training, evaluating = rates(
            len(paths),
            lambda: [modules.data.read_wav(path) for path in paths],
            lambda: speech[modules.loader.Key(1, everyone)],
            lambda: speech[modules.loader.Key(0, everyone)],
        )
        print(f"bench train: plain reading decodes {plain:.0f} utterances/s per core, of {generated.SECONDS} s")
        share = FIRST_BAR * PUBLISHED["rnnt"] / WORKERS["rnnt"]
        yield "rnnt-train-utterances", training, share
        yield "rnnt-eval-utterances", evaluating, share


def unet3d(modules: SimpleNamespace) -> Iterator[Row]:
    """Crops of 128 x 128 x 128 from mapped volumes, against a worker's share of what a device asks for."""
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        generated.write_cases(Path(place), 2)
        window = (128, 128, 128)
        cases = modules.data.open_cases(Path(place), "train", window)
        yield "unet3d-foregrounds", *rates(len(cases), lambda: boxes(cases)), 1.0
        parts = modules.data.TrainParts(
            cases, part=2, rank=0, size=1, steps=1, accumulate=1, window=window, oversampling=0.4, seed=1
        )
        crops = rates(40, lambda: [parts[number] for number in range(20)])
        yield "unet3d-crops", *crops, PUBLISHED["unet3d"] / WORKERS["unet3d"]


def boxes(cases: list) -> None:
    """Search every case anew."""
    for case in cases:
        case.__dict__.pop("foreground", None)
        case.foreground  # noqa: B018


def bert(modules: SimpleNamespace) -> Iterator[Row]:
    """Reading each layout against h5py alone; packed batches against what a device asks for."""
    sizes = modules.model.Sizes()
    rows = generated.sequences(SEQUENCES)
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        for layout, write in WRITERS.items():
            path = Path(place) / f"{layout}.hdf5"
            write(path, rows)
            works = (functools.partial(read_plainly, path), functools.partial(modules.data.read, path, sizes))
            plain, read = rates(SEQUENCES, *works)
            print(f"bench train: plain h5py reads {plain:.0f} sequences/s per core, {layout}")
            yield f"bert-read-{layout}", read, READ_SHARE[layout] * plain
        part, count = 56, SEQUENCES // 56
        files = [Path(place) / "fixed.hdf5"]
        parts = modules.loader.TrainParts(files, sizes, modules.loader.Cut(part), seed=1, pack=True)
        batches = rates(part * count, lambda: list(itertools.islice(parts, count)))
        yield "bert-packed-sequences", *batches, PUBLISHED["bert"]


def read_plainly(path: Path) -> None:
    """All datasets of a file into memory."""
    with h5py.File(path) as file:
        for name in file:
            file[name][:]


FEEDS = {"resnet": resnet, "rnnt": rnnt, "unet3d": unet3d, "bert": bert}
