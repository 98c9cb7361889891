"""ResNet v1.5, as MLPerf's reference of ResNet-50 builds it (`resnet_model.py` of the TensorFlow 2 reference).

v1.5 means that a bottleneck strides in its 3x3 convolution. Defaults: ResNet-50 with 25,557,032 parameters.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn


def pad_same(x: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Pad (N, C, H, W) as TensorFlow's "same" does: the odd row and column go after, not before."""
    pads = []
    for size in (x.shape[3], x.shape[2]):
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads, value=value)


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride), 1x1 to four times the width, and the shortcut around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1 if stride == 1 else 0, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = None
        if stride != 1 or channels != 4 * width:
            self.shortcut = nn.Conv2d(channels, 4 * width, 1, stride, bias=False)
            self.bn_shortcut = nn.BatchNorm2d(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.shortcut is None else self.bn_shortcut(self.shortcut(x))
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        if self.stride != 1:
            x = pad_same(x, 3, self.stride)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        return F.relu(self.bn3(self.conv3(x)) + shortcut, inplace=True)


class ResNet(nn.Module):
    """Pictures (N, 3, H, W) to logits (N, classes). `blocks` counts the bottlenecks of each stage."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        stages, channels = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Bottleneck(channels, width << stage, stride))
                channels = 4 * (width << stage)
        self.stages = nn.Sequential(*stages)
        self.dense = nn.Linear(channels, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(pad_same(x, 3, 2, -math.inf), 3, 2)
        return self.dense(self.stages(x).mean(dim=(2, 3)))


def initialise(layer: nn.Module) -> None:
    """He's initialisation, from a normal distribution cut at two sigma; the last layer N(0, 0.01)."""
    if isinstance(layer, nn.Conv2d):
        fan_in = layer.weight[0].numel()
        sigma = math.sqrt(2 / fan_in) / 0.87962566  # the cut narrows the distribution by this factor
        nn.init.trunc_normal_(layer.weight, std=sigma, a=-2 * sigma, b=2 * sigma)
    elif isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)
