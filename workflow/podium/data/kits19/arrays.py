"""Layout `npy`: for each case `case_%05d_x.npy` (float32) and `case_%05d_y.npy` (uint8), both of shape (1, D, H, W).

Beside them: `train_cases.txt` and `evaluation_cases.txt` (one five-digit number a line), `checksum.json` (file name to
md5), all as the reference has them, and `cases.csv` (what each case was made from and what it holds).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium import files
from podium.data.formats import nifti, npy
from podium.data.job import Job
from podium.data.kits19 import cases, published, resample
from podium.data.kits19.cases import Case
from podium.data.kits19.pool import in_memory
from podium.data.tasks import processes
from podium.errors import BadInput
from podium.progress import bar

LAYOUTS = {"npy": "case_00000_{x,y}.npy and so on in one folder, the reference's and NVIDIA's form"}
PARAMS = {
    "evaluation_cases": "list of case numbers, default the official 42 (as far as they are in the source)",
    "take": "only the first N cases of each split: a subset for tests (default: all)",
    "min_shape": "least (D, H, W) of an array, by padding, default [128, 128, 128]",
    "target_spacing": "voxel size in mm (D, H, W), default [1.6, 1.2, 1.2]",
    "arithmetic": "the torch kernels whose bits x has: avx2 (fused multiply-add; default) or default",
}
X_NOTE = (
    "the published x were made with torch 1.7.1, whose last bits no torch 2 gives (1.13.1 differs by up to 4.3e-5); "
    "the published x of case_00043 is met by nobody (mlcommons/training issue 545)"
)
SIZES = tuple(f"{what}_{axis}" for what in ("raw", "spacing", "out") for axis in "dhw")


@dataclass(frozen=True)
class Settings:
    """The parameters, checked."""

    evaluation: frozenset[int] | None
    least: resample.Shape
    spacing: tuple[float, float, float]
    fused: bool


@dataclass(frozen=True)
class Pair:
    """One finished case: its shape (D, H, W), voxels of kidney and of tumour, and the md5 of both files."""

    shape: resample.Shape
    kidney: int
    tumour: int
    x_md5: str
    y_md5: str


def prepare(job: Job) -> dict[str, Any]:
    """Make every pair that `job.to` does not hold yet, then the lists; returns the counts.

    Raises BadInput naming every case that cannot be used; the pairs of the others are finished first and kept.
    """
    settings = _settings(job.params)
    found, skipped = cases.find(job.source)
    evaluation = _evaluation(settings, found, job.source)
    if take := job.params.get("take", 0):
        found, evaluation = _first(found, evaluation, take)
    pairs = dict(_pairs(job, found, settings))
    _write_lists(job.to, found, pairs, evaluation)
    return {
        "cases": len(found),
        "train": len(found) - len(evaluation),
        "evaluation": len(evaluation),
        "skipped": skipped,
        "official_split": settings.evaluation is None,
        "voxels": sum(math.prod(pair.shape) for pair in pairs.values()),  # of all x, and of all y
        "target_spacing": list(settings.spacing),
        "min_shape": list(settings.least),
        "without_kidney": [case.name for case in found if not pairs[case.number].kidney],
        **_compared(found, pairs),
    }


def make_pair(case: Case, to: Path, settings: Settings) -> Pair:
    """Write the pair of one case, or hash what an interrupted try has finished of it."""
    x_path, y_path = (to / f"{case.name}_{letter}.npy" for letter in "xy")
    if x_path.exists() and y_path.exists():
        labels = np.load(y_path, mmap_mode="r")
        kidney, tumour = (int(np.count_nonzero(labels == label)) for label in (1, 2))
        return Pair(labels.shape[1:], kidney, tumour, files.hash_file(x_path, "md5"), files.hash_file(y_path, "md5"))
    wanted = resample.new_shape(case.imaging.shape, case.imaging.spacing, settings.spacing)
    if min(wanted) < 1:
        raise BadInput(
            f"{case.name} is thinner than one voxel",
            f"voxels of {settings.spacing} mm",
            f"{wanted}",
            "set target_spacing",
        )
    pads = resample.padding(wanted, settings.least)
    shape = tuple(size + sum(pad) for size, pad in zip(wanted, pads, strict=True))
    count = np.zeros(3, np.int64)
    labels = resample.nearest_planes(_labels(case), case.imaging.shape, wanted)
    y_md5 = npy.write(y_path, (1, *shape), np.uint8, _counted(resample.padded(labels, pads), count))
    planes = resample.trilinear(_hounsfield(case), case.imaging.shape, wanted, settings.fused)
    x_md5 = npy.write(x_path, (1, *shape), np.float32, resample.padded(map(resample.normalise, planes), pads))
    return Pair(shape, int(count[1]), int(count[2]), x_md5, y_md5)


def memory_needed(case: Case, settings: Settings) -> int:
    """An upper bound in bytes on what `make_pair` holds at once, from the headers alone."""
    depth, height, _ = case.imaging.shape
    _, new_height, new_width = resample.new_shape(case.imaging.shape, case.imaging.spacing, settings.spacing)
    turned = 4 * depth * new_height * new_width
    slabs = 128 * depth * max(height, new_height)
    planes = 32 * max(new_height, settings.least[1]) * max(new_width, settings.least[2])
    return turned + slabs + planes + (64 << 20)


def _pairs(job: Job, found: Sequence[Case], settings: Settings) -> Iterator[tuple[int, Pair]]:
    tasks = {case.number: (case, job.to, settings) for case in found}
    needs = {case.number: memory_needed(case, settings) for case in found}
    errors = []
    with processes(job.workers) as pool:
        answers = in_memory(pool, job.workers, make_pair, tasks, needs)
        for number, answer in bar(answers, "prepare kits19", len(tasks), "case"):
            if isinstance(answer, BadInput):
                errors.append(answer)
            else:
                yield number, answer
    if errors:
        raise cases.together(job.source, errors)


def _labels(case: Case) -> Iterator[np.ndarray]:
    """The slabs of the segmentation as uint8; raises BadInput for anything but 0, 1 and 2."""
    volume = case.segmentation
    for slab in nifti.slabs(volume):
        labels = nifti.values(volume, slab)
        kept = labels.astype(np.uint8, copy=False)
        if kept.max() > 2 or (kept.dtype != labels.dtype and not np.array_equal(kept, labels)):
            strange = sorted({float(value) for value in np.unique(labels)} - {0.0, 1.0, 2.0})
            raise BadInput(
                f"{volume.path} holds labels that KiTS19 has not",
                "0 background, 1 kidney, 2 tumour",
                ", ".join(f"{value:g}" for value in strange[:10]),
                f"rm {volume.path} and fetch it again",
            )
        yield kept


def _hounsfield(case: Case) -> Iterator[np.ndarray]:
    """The slabs of the image; raises BadInput for values that are no numbers."""
    volume = case.imaging
    for slab in nifti.slabs(volume):
        values = nifti.values(volume, slab)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise BadInput(
                f"{volume.path} holds values that are no numbers",
                "finite Hounsfield units",
                "NaN or infinity",
                f"rm {volume.path} and fetch it again",
            )
        yield values


def _counted(planes: Iterator[np.ndarray], count: np.ndarray) -> Iterator[np.ndarray]:
    """Pass planes of labels through and add how often each of 0, 1 and 2 stands in them."""
    for plane in planes:
        for label in (1, 2):
            count[label] += np.count_nonzero(plane == label)
        yield plane


def _write_lists(to: Path, found: Sequence[Case], pairs: dict[int, Pair], evaluation: set[int]) -> None:
    numbers = [case.number for case in found]
    for name, chosen in (("evaluation", evaluation), ("train", set(numbers) - evaluation)):
        lines = (f"{number:05d}\n" for number in numbers if number in chosen)
        files.write_text(to / f"{name}_cases.txt", "".join(lines))
    sums = {}
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("case", "split", *SIZES, "kidney", "tumour"))
    for case in found:
        pair = pairs[case.number]
        sums |= {f"{case.name}_x.npy": pair.x_md5, f"{case.name}_y.npy": pair.y_md5}
        split = "evaluation" if case.number in evaluation else "train"
        sizes = (*case.imaging.shape, *case.imaging.spacing, *pair.shape)
        writer.writerow((case.name, split, *sizes, pair.kidney, pair.tumour))
    files.write_json(to / "checksum.json", sums)
    files.write_text(to / "cases.csv", table.getvalue())


def _compared(found: Sequence[Case], pairs: dict[int, Pair]) -> dict[str, Any]:
    """How many of the published hashes are met."""
    known = {
        case.number: row
        for case in found
        if (row := published.match(case.name, case.imaging.shape, case.imaging.spacing, pairs[case.number].shape))
    }
    x_equal = sum(pairs[number].x_md5 == row.x_md5 for number, row in known.items())
    return {
        "published": len(known),
        "published_y_equal": sum(pairs[number].y_md5 == row.y_md5 for number, row in known.items()),
        "published_x_equal": x_equal,
        **({"published_x_note": X_NOTE} if x_equal < len(known) else {}),
    }


def _evaluation(settings: Settings, found: Sequence[Case], source: Path) -> set[int]:
    present = {case.number for case in found}
    if settings.evaluation is None:
        return present & set(published.official_evaluation())
    if absent := sorted(settings.evaluation - present):
        raise BadInput(
            "evaluation_cases names cases that are not there",
            f"cases of {source}",
            ", ".join(map(str, absent)),
            "correct evaluation_cases in the parameters",
        )
    return set(settings.evaluation)


def _first(found: Sequence[Case], evaluation: set[int], take: int) -> tuple[list[Case], set[int]]:
    """The first `take` cases of each split, and which of them are for evaluation."""
    numbers = [case.number for case in found]
    held = [number for number in numbers if number in evaluation][:take]
    kept = {*held, *[number for number in numbers if number not in evaluation][:take]}
    return [case for case in found if case.number in kept], set(held)


def _settings(params: dict[str, Any]) -> Settings:
    arithmetic = params.get("arithmetic", "avx2")
    if arithmetic not in ("avx2", "default"):
        raise _wrong("arithmetic", "avx2 or default", arithmetic)
    evaluation = params.get("evaluation_cases")
    if evaluation is not None and not _numbers(evaluation, int, 0):
        raise _wrong("evaluation_cases", "a list of case numbers", evaluation)
    least = params.get("min_shape", [128, 128, 128])
    if not (_numbers(least, int, 1) and len(least) == 3):
        raise _wrong("min_shape", "three positive integers", least)
    spacing = params.get("target_spacing", [1.6, 1.2, 1.2])
    if not (_numbers(spacing, (int, float), 1e-3) and len(spacing) == 3):
        raise _wrong("target_spacing", "three lengths in millimetres", spacing)
    return Settings(
        None if evaluation is None else frozenset(evaluation),
        tuple(least),
        tuple(map(float, spacing)),
        arithmetic == "avx2",
    )


def _numbers(value: Any, kind: type | tuple[type, ...], least: float) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, kind) and not isinstance(item, bool) and item >= least for item in value
    )


def _wrong(name: str, expected: str, found: Any) -> BadInput:
    return BadInput(f"parameter {name} is wrong", expected, repr(found), "podium prepare --help")
