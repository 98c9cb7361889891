"""ImageNet in the layout `recordio`, {train,val}.{rec,idx}: reading, augmentation, batches.

A record is MXNet's header `<IfQQ` (flag, label, id, id2) and the picture as ImageNet distributes it. The crops for
training and evaluation are those of MLPerf's reference (`imagenet_preprocessing.py` of the TensorFlow 2 reference).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import png
import simplejpeg
import torch
from common.contract import stop
from torch import Tensor

MAGIC = struct.pack("<I", 0xCED7230A)
HEADER = struct.Struct("<IfQQ")
MEAN = np.float32([123.68, 116.78, 103.94])  # red, green, blue, over the training pictures


def join_parts(raw: bytes) -> bytes:
    """The payload of one record of a RecordIO file; ValueError when `raw` is not one whole record.

    A part is: magic, u32 (flag << 29 | length), content, zeros up to a multiple of 4. A whole record has flag 0. Where
    the magic stands in the content, it is left out and the record is cut there into parts flagged 1, 2, ..., 2, 3.
    """
    parts: list[bytes] = []
    at, flag = 0, None
    while flag not in (0, 3):
        if raw[at : at + 4] != MAGIC:
            raise ValueError(f"expected RecordIO's magic at byte {at} of the record")
        word = int.from_bytes(raw[at + 4 : at + 8], "little")
        flag, length = word >> 29, word & ((1 << 29) - 1)
        first = flag in (0, 1)
        if first != (not parts) or len(raw) < at + 8 + length:
            raise ValueError(f"the part at byte {at} of the record does not fit in")
        parts.append(raw[at + 8 : at + 8 + length])
        at += 8 + length + -length % 4
    if at != len(raw):
        raise ValueError(f"the record ends at byte {at}, the next one begins at byte {len(raw)}")
    return MAGIC.join(parts)


class Records:
    """The pictures of one split, by position 0..len-1 in its file.

    Threads and forked processes may share it: every read carries its own offset.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.path, index = folder / f"{split}.rec", folder / f"{split}.idx"
        for path in (self.path, index):
            if not path.is_file():
                stop(f"{path} is missing: DATADIR must hold the layout recordio, {split}.rec and {split}.idx")
        self._file = os.open(self.path, os.O_RDONLY)
        try:
            starts = [int(line.split("\t")[1]) for line in index.read_text().splitlines()]
        except (ValueError, IndexError):
            stop(f"{index}: expected a line `key<tab>offset` for every record; prepare the data set again")
        self._bounds = [*starts, os.fstat(self._file).st_size]
        if self._bounds != sorted(self._bounds):
            stop(f"{index}: its offsets do not fit {self.path}; prepare the data set again")

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, position: int) -> tuple[np.ndarray, int]:
        """The picture (height, width, 3) in uint8 RGB, and its label."""
        start, end = self._bounds[position : position + 2]
        try:
            payload = join_parts(os.pread(self._file, end - start, start))
            _, label, _, _ = HEADER.unpack_from(payload)
            return decode(payload[HEADER.size :]), int(label)
        except (ValueError, struct.error) as error:
            stop(f"{self.path}, record at byte {start}: {error}; check it with `podium verify`, or prepare it again")


def decode(picture: bytes) -> np.ndarray:
    """A JPEG of any colour space, or a PNG, to (height, width, 3) uint8 RGB; ValueError when it is neither."""
    if picture.startswith(png.SIGNATURE):  # ImageNet has one: n02105855_2933.JPEG
        return png.decode(picture)
    return simplejpeg.decode_jpeg(picture, "RGB")


@dataclass(frozen=True)
class Window:
    """A part of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


def random_window(height: int, width: int, min_area: float, random: np.random.Generator) -> Window:
    """A window of at least `min_area` of the picture with an aspect ratio of 0.75..1.33; all of it after 100 tries.

    As in TensorFlow's `sample_distorted_bounding_box`, the ratio is uniform and so is the height among those that fit.
    """
    for _ in range(100):
        ratio, tall, top, left = random.random(4)
        ratio = 0.75 + ratio * (1.33 - 0.75)
        smallest, largest = (min_area * height * width / ratio) ** 0.5, min(height, width / ratio)
        if smallest <= largest:
            tall = round(smallest + tall * (largest - smallest))
            wide = min(round(tall * ratio), width)
            return Window(int(top * (height - tall + 1)), int(left * (width - wide + 1)), tall, wide)
    return Window(0, 0, height, width)


def resize(picture: np.ndarray, height: int, width: int, window: Window) -> np.ndarray:
    """The `window` of the picture resized to (height, width), in float32.

    Bilinear without antialiasing; output pixel i is taken at input i * scale, as TensorFlow 1 does.
    """
    above, below, down = _neighbours(picture.shape[0], height, window.top, window.height)
    before, after, right = _neighbours(picture.shape[1], width, window.left, window.width)
    upper = picture[above].astype(np.float32)
    rows = upper + (picture[below] - upper) * down[:, None, None]
    return rows[:, before] + (rows[:, after] - rows[:, before]) * right[:, None]


def train_picture(picture: np.ndarray, size: int, min_area: float, random: np.random.Generator) -> np.ndarray:
    """A random window resized to (size, size, 3), mirrored half of the time."""
    part = random_window(*picture.shape[:2], min_area, random)
    picture = picture[part.top : part.top + part.height, part.left : part.left + part.width]
    picture = resize(picture, size, size, Window(0, 0, size, size))
    return picture[:, ::-1] if random.random() < 0.5 else picture


def eval_picture(picture: np.ndarray, size: int, short_side: int) -> np.ndarray:
    """The middle (size, size, 3) of the picture after its shorter side was resized to `short_side`."""
    height, width = (side * short_side // min(picture.shape[:2]) for side in picture.shape[:2])
    return resize(picture, height, width, Window((height - size) // 2, (width - size) // 2, size, size))


def order(count: int, seed: int, epoch: int) -> np.ndarray:
    """Positions 0..count-1 in the order of this epoch: each exactly once."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def batches(
    records: Records, positions: Sequence[int], size: int, convert: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The records at `positions`, `size` at a time: converted pictures minus the mean (N, 3, H, W), and labels (N,)."""
    for start in range(0, len(positions), size):
        pictures, labels = zip(*(records[position] for position in positions[start : start + size]), strict=True)
        batch = np.stack([convert(picture) for picture in pictures]) - MEAN
        yield torch.from_numpy(batch).permute(0, 3, 1, 2), torch.tensor(labels)


def _neighbours(size: int, to: int, start: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For output pixels start..start+count-1 of `to`: the input pixel before, the one after, and the way between."""
    at = np.arange(start, start + count, dtype=np.float32) * np.float32(size / to)
    before = at.astype(np.int64)
    return before, np.minimum(before + 1, size - 1), at % 1
