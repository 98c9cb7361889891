"""The prepared KiTS19 volumes (layout `npy`), the random crops that training sees, and what a process takes of them.

A data folder holds `case_%05d_x.npy` (float32, (1, D, H, W), normalised intensities), `case_%05d_y.npy` (uint8, same
shape, 0 background, 1 kidney, 2 tumour), `train_cases.txt` and `evaluation_cases.txt` (a five-digit number a line).
Augmentation: MLPerf Training reference, unet3d, data_loading/pytorch_loader.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common.contract import stop
from torch import Tensor
from torch.utils.data import Dataset

FLIP = 1 / 3  # probability, per axis
BRIGHTNESS = 0.1  # probability; the reference multiplies by 1 + U(0.7, 1.3), so by 1.7 to 2.3
NOISE = 0.1  # probability; normal with a standard deviation of U(0, 0.1)
CROP = 1  # separates the random streams of the crops from those of the order

Box = tuple[slice, slice, slice]


@dataclass(frozen=True, eq=False)
class Case:
    """One patient: `image` float32 and `label` uint8, both (1, D, H, W), mapped from the file and read when touched."""

    name: str
    image: np.ndarray
    label: np.ndarray

    @functools.cached_property
    def foreground(self) -> dict[int, list[Box]]:
        """For each class that is there, the boxes of the two components whose boxes are largest (6 neighbours)."""
        from scipy import ndimage  # here, since it takes a fifth of a second and evaluation does not need it

        label = np.asarray(self.label[0])
        found = {}
        for kind, around in enumerate(ndimage.find_objects(label, max_label=2), start=1):
            if around:
                components, _ = ndimage.label(label[around] == kind)
                boxes = sorted(ndimage.find_objects(components), key=_volume)
                found[kind] = [_moved(box, around) for box in boxes[-2:]]
        return found


def open_cases(folder: Path, split: str, window: Sequence[int]) -> list[Case]:
    """Map every case of `split` ("train" or "evaluation"); each holds at least one window of the shape `window`.

    Ends the process with status 2 when the folder is not what it must be.
    """
    path = folder / f"{split}_cases.txt"
    if not path.is_file():
        stop(f"{path}: expected a list of cases, found nothing; DATADIR must hold KiTS19 prepared in the layout `npy`")
    numbers = path.read_text(encoding="utf-8").split()
    if not numbers:
        stop(f"{path}: expected a case on each line, found none; prepare the data set again")
    cases = [_open_case(folder, f"case_{number}") for number in numbers]
    for case in cases:
        size = case.image.shape[1:]
        if any(extent > length for extent, length in zip(window, size, strict=True)):
            stop(f"{folder / case.name}: expected a volume of at least {(*window,)}, the window, found {size}")
    return cases


def order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The cases 0..count-1 in the order of this epoch: each exactly once."""
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True, eq=False)
class TrainParts(Dataset):
    """A process's parts of all epochs in a row: images (part, 1, *window) float32 and labels (part, *window) uint8.

    An epoch has `steps` global batches of `accumulate` parts on each of `size` processes, and each case at most once.
    The processes take the parts of the epoch's order in turn. A crop depends on the seed, the epoch and its place in
    the order, not on the number of processes nor on who loads it.
    """

    cases: Sequence[Case]
    part: int  # cases that pass the network of one process at once
    rank: int
    size: int
    steps: int
    accumulate: int
    window: Sequence[int]
    oversampling: float  # probability of a crop around a kidney or tumour
    seed: int

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        epoch, index = divmod(number, self.steps * self.accumulate)
        first = (index * self.size + self.rank) * self.part
        positions = order(len(self.cases), self.seed, epoch + 1)
        images, labels = [], []
        for place in range(first, first + self.part):
            rng = np.random.default_rng([self.seed, epoch + 1, CROP, place])
            image, label = augment(*crop(self.cases[positions[place]], self.window, self.oversampling, rng), rng)
            images.append(image)
            labels.append(label)
        return torch.from_numpy(np.stack(images)), torch.from_numpy(np.concatenate(labels))


@dataclass(frozen=True, eq=False)
class Foregrounds(Dataset):
    """The boxes of each case, which several processes may look for at once."""

    cases: Sequence[Case]

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, number: int) -> dict[int, list[Box]]:
        return self.cases[number].foreground


def crop(
    case: Case, window: Sequence[int], oversampling: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A random part (1, *window) of image and label, with probability `oversampling` around a foreground component."""
    size = case.image.shape[1:]
    if rng.random() < oversampling and case.foreground:
        boxes = case.foreground[rng.choice(sorted(case.foreground))]
        box = boxes[rng.integers(len(boxes))]
        corner = [_around(*axis, rng) for axis in zip(box, window, size, strict=True)]
    else:
        corner = [_below(length - extent, rng) for extent, length in zip(window, size, strict=True)]
    part = (slice(None), *(slice(low, low + extent) for low, extent in zip(corner, window, strict=True)))
    return case.image[part], case.label[part]


def augment(image: np.ndarray, label: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random flips of both; random brightness and noise of the image. Never changes its arguments."""
    axes = [axis for axis in (1, 2, 3) if rng.random() < FLIP]
    image, label = np.flip(image, axes), np.flip(label, axes)
    if rng.random() < BRIGHTNESS:
        image = image * np.float32(1 + rng.uniform(0.7, 1.3))
    if rng.random() < NOISE:
        image = image + np.float32(rng.uniform(0.0, 0.1)) * rng.standard_normal(image.shape, np.float32)
    return image, label


def _around(box: slice, extent: int, length: int, rng: np.random.Generator) -> int:
    """Start of a window of `extent` that holds `box`, or lies in it if that is larger, moved into [0, length)."""
    slack = extent - (box.stop - box.start)
    shift = _below(abs(slack), rng)
    low = box.start - shift if slack >= 0 else box.start + shift
    return min(max(low, 0), length - extent)


def _below(limit: int, rng: np.random.Generator) -> int:
    """Uniform in [0, limit), 0 if the limit is 0; as in the reference, the last possible place is never drawn."""
    return int(rng.integers(limit)) if limit else 0


def _moved(box: Box, frame: Box) -> Box:
    """A box that was found inside `frame`, in the frame's own coordinates."""
    return tuple(slice(low.start + axis.start, low.start + axis.stop) for axis, low in zip(box, frame, strict=True))


def _volume(box: Box) -> int:
    return int(np.prod([axis.stop - axis.start for axis in box]))


def _open_case(folder: Path, name: str) -> Case:
    image, label = (
        _open_array(folder / f"{name}_{kind}.npy", dtype) for kind, dtype in (("x", "float32"), ("y", "uint8"))
    )
    if image.shape != label.shape or image.ndim != 4 or image.shape[0] != 1:
        stop(
            f"{folder / name}: expected image and label of one shape (1, D, H, W), "
            f"found {image.shape} and {label.shape}; prepare the data set again"
        )
    return Case(name, image, label)


def _open_array(path: Path, dtype: str) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        stop(f"{path}: named in the list of cases, but not there; prepare the data set again")
    except (ValueError, EOFError) as error:
        stop(f"{path}: expected an .npy file, found something else ({error}); prepare the data set again")
    if array.dtype != dtype:
        stop(f"{path}: expected {dtype}, found {array.dtype}; prepare the data set in the layout `npy`")
    return array
