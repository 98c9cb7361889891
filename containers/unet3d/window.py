"""The logits of a whole volume: the network sees overlapping windows, which a Gaussian weight blends.

Source: MLPerf Training reference, unet3d, runtime/inference.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from model import CLASSES
from torch import Tensor

PADDING = -2.2  # value around a volume, near the normalised intensity of air
SIGMA = 0.125  # standard deviation of the weight, in window lengths


@dataclass(frozen=True)
class Fit:
    """How one axis is made to fit whole strides: voxels cut off, or put on, at both ends."""

    cut: tuple[int, int]
    pad: tuple[int, int]


def fit(size: int, window: int, step: int) -> Fit:
    """A rest below half a stride is cut off; any other is padded to a whole stride, and to one window at least."""
    rest = size % step
    if rest < step // 2:
        cut, size = rest, size - rest
    else:
        cut = 0
    pad = max(-size % step, window - size)
    return Fit((cut // 2, cut - cut // 2), (pad // 2, pad - pad // 2))


def stride(window: int, overlap: float) -> int:
    """Voxels from one window to the next."""
    return int(window * (1 - overlap))


def starts(size: int, window: int, step: int) -> range:
    """Where the windows of one axis begin, once it fits."""
    axis = fit(size, window, step)
    return range(0, size - sum(axis.cut) + sum(axis.pad) - window + 1, step)


def gaussian(window: Sequence[int]) -> Tensor:
    """Weight of each voxel of a window, largest 1: the cube root of the product of one Gaussian per axis."""
    weight = torch.ones((), dtype=torch.float64)
    for size in window:
        offset = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
        weight = weight[..., None] * torch.exp(-((offset / (SIGMA * size)) ** 2) / 2)
    weight = weight ** (1 / 3)
    return (weight / weight.max()).float()


def count(shape: Sequence[int], window: Sequence[int], overlap: float) -> int:
    """How many windows a volume takes."""
    axes = zip(shape, window, (stride(size, overlap) for size in window), strict=True)
    return math.prod(len(starts(*axis)) for axis in axes)


def shares(costs: Sequence[int], processes: int) -> list[list[int]]:
    """The volumes 0..len-1 dealt to processes: the most costly first, each to the process with the least so far."""
    dealt, load = [[] for _ in range(processes)], [0] * processes
    for volume in sorted(range(len(costs)), key=lambda volume: -costs[volume]):
        least = load.index(min(load))
        dealt[least].append(volume)
        load[least] += costs[volume]
    return dealt


def filled(model: Callable[[Tensor], Tensor], batch: int) -> Callable[[Tensor], Tensor]:
    """The model with its batches filled up to `batch`, as one that is compiled is quick for one size only."""

    def run(windows: Tensor) -> Tensor:
        missing = batch - len(windows)
        return model(F.pad(windows, (0,) * 9 + (missing,)))[: len(windows)]

    return run


@torch.inference_mode()
def predict(
    model: Callable[[Tensor], Tensor], image: Tensor, label: Tensor, window: Sequence[int], overlap: float, batch: int
) -> tuple[Tensor, Tensor]:
    """Blended logits (3, D, H, W) of `image` (1, D, H, W), and the part (1, D, H, W) of `label` that they cover.

    `batch` windows go through the model at a time.
    """
    steps = [stride(size, overlap) for size in window]
    sizes = image.shape[1:]
    axes = [fit(*axis) for axis in zip(sizes, window, steps, strict=True)]
    kept = (..., *(slice(axis.cut[0], size - axis.cut[1]) for axis, size in zip(axes, sizes, strict=True)))
    label = label[kept]
    image = F.pad(image[kept], [n for axis in reversed(axes) for n in axis.pad], value=PADDING)

    weight = gaussian(window).to(image.device)
    total = torch.zeros((CLASSES, *image.shape[1:]), device=image.device)
    weights = torch.zeros(image.shape[1:], device=image.device)
    corners = itertools.product(*(starts(*axis) for axis in zip(sizes, window, steps, strict=True)))
    places = [(..., *(slice(low, low + size) for low, size in zip(corner, window, strict=True))) for corner in corners]
    for first in range(0, len(places), batch):
        group = places[first : first + batch]
        for place, logits in zip(group, model(torch.stack([image[place] for place in group])), strict=True):
            total[place] += logits * weight
            weights[place] += weight
    inside = (..., *(slice(a.pad[0], a.pad[0] + n) for a, n in zip(axes, label.shape[1:], strict=True)))
    return (total / weights)[inside], label
