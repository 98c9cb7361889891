"""The 3D U-Net of the benchmark: six resolutions and 31,190,243 parameters with the reference's five filters.

Source: MLPerf Training reference, unet3d, model/unet3d.py and model/layers.py; the initialisation is torch's default.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

CLASSES = 3  # background, kidney, tumour
REFERENCE_FILTERS = (32, 64, 128, 256, 320)


def conv_block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """3x3x3 convolution without bias, instance norm with scale and shift, ReLU."""
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.InstanceNorm3d(outputs, eps=1e-5, affine=True),
        nn.ReLU(inplace=True),
    )


def down_block(inputs: int, outputs: int) -> nn.Sequential:
    """Halve the resolution, then one more convolution."""
    return nn.Sequential(conv_block(inputs, outputs, stride=2), conv_block(outputs, outputs))


class UpBlock(nn.Module):
    """Double the resolution by a transposed convolution, join the skip connection, two convolutions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(inputs, outputs, kernel_size=2, stride=2)
        self.convs = nn.Sequential(conv_block(2 * outputs, outputs), conv_block(outputs, outputs))

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.convs(torch.cat((self.up(x), skip), dim=1))


class UNet3D(nn.Module):
    """(N, 1, D, H, W) intensities -> (N, 3, D, H, W) logits; D, H, W are multiples of 2 ** len(filters).

    One resolution per entry of `filters`, and the bottleneck below them with the last entry's width. There is nothing
    that differs between training and evaluation: no dropout, no running statistics.
    """

    def __init__(self, filters: Sequence[int] = REFERENCE_FILTERS) -> None:
        super().__init__()
        widths = (*filters, filters[-1])
        self.input = nn.Sequential(conv_block(1, filters[0]), conv_block(filters[0], filters[0]))
        self.down = nn.ModuleList(down_block(above, below) for above, below in pairwise(widths))
        self.up = nn.ModuleList(UpBlock(below, above) for below, above in pairwise(reversed(widths)))
        self.head = nn.Conv3d(filters[0], CLASSES, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(x)
        for up in self.up:
            x = up(x, skips.pop())
        return self.head(x)
