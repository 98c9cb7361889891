"""ImageNet in the layout `recordio`, {train,val}.{rec,idx}: reading, augmentation, the parts that a process trains on.

A record is MXNet's header `<IfQQ` (flag, label, id, id2) and the picture as ImageNet distributes it. The crops for
training and evaluation are those of MLPerf's reference (`imagenet_preprocessing.py` of the TensorFlow 2 reference).
"""

from __future__ import annotations

import functools
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import png
import simplejpeg
import torch
import torch.nn.functional as F
from common.contract import stop
from torch import Tensor
from torch.utils.data import Dataset

MAGIC = struct.pack("<I", 0xCED7230A)
HEADER = struct.Struct("<IfQQ")
MEAN = (123.68, 116.78, 103.94)  # red, green, blue, over the training pictures
COVERED = 0.1  # of a picture by a training window, at least
TRIES = 100
CROP = 1  # separates the random streams of the crops from those of the order
NOBODY = -1  # the label of what fills up a part: no prediction meets it


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
            starts = [int(line.split("\t")[1]) for line in index.read_text(encoding="utf-8").splitlines()]
        except (ValueError, IndexError):
            stop(f"{index}: expected a line `key<tab>offset` for every record; prepare the data set again")
        self._bounds = np.array([*starts, os.fstat(self._file).st_size])  # not a list: forked loaders would copy it
        if (np.diff(self._bounds) < 0).any():
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

    As TensorFlow's `sample_distorted_bounding_box` with the whole picture for its box: the ratio is uniform, the height
    uniform among those that fit, a window below `COVERED` of the picture is drawn again, and none begins at the last
    possible row or column.
    """
    for _ in range(TRIES):
        ratio, tall, top, left = random.random(4)
        ratio = 0.75 + ratio * (1.33 - 0.75)
        smallest = round((min_area * height * width / ratio) ** 0.5)
        largest = min(height, round((height * width / ratio) ** 0.5), int((width + 0.5) / ratio))
        tall = smallest + int(tall * (largest - smallest + 1)) if smallest < largest else largest
        wide = min(round(tall * ratio), width)
        if tall * wide >= max(min_area, COVERED) * height * width:
            return Window(int(top * (height - tall)), int(left * (width - wide)), tall, wide)
    return Window(0, 0, height, width)


def resize(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """A picture (rows, columns, 3) in uint8 resized to planes (3, height, width), rounded.

    Bilinear without antialiasing; output pixel i is taken at input i * scale, as TensorFlow 1 does. PyTorch does so
    with `align_corners` where input and output have one row and one column more: the last ones twice.
    """
    rows, columns, _ = picture.shape
    padded = np.empty((rows + 1, columns + 1, 3), np.uint8)
    padded[:-1, :-1], padded[-1, :-1] = picture, picture[-1]
    padded[:, -1] = padded[:, -2]
    planes = torch.from_numpy(padded).permute(2, 0, 1)[None]
    planes = F.interpolate(planes, (height + 1, width + 1), mode="bilinear", align_corners=True)
    return planes[0, :, :-1, :-1].numpy()


def train_picture(picture: np.ndarray, size: int, min_area: float, random: np.random.Generator) -> np.ndarray:
    """A random window resized to planes (3, size, size), mirrored half of the time."""
    part = random_window(*picture.shape[:2], min_area, random)
    picture = picture[part.top : part.top + part.height, part.left : part.left + part.width]
    planes = resize(picture, size, size)
    return planes[:, :, ::-1] if random.random() < 0.5 else planes


def eval_picture(picture: np.ndarray, size: int, short_side: int) -> np.ndarray:
    """The middle, as planes (3, size, size), of the picture after its shorter side was resized to `short_side`."""
    height, width = (side * short_side // min(picture.shape[:2]) for side in picture.shape[:2])
    top, left = (height - size) // 2, (width - size) // 2
    return resize(picture, height, width)[:, top : top + size, left : left + size]


def order(count: int, seed: int, epoch: int) -> np.ndarray:
    """Positions 0..count-1 in the order of this epoch: each exactly once."""
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True)
class Share:
    """The pictures of the process `rank` among `size`, of which `part` pass its network at once."""

    part: int
    rank: int = 0
    size: int = 1


@dataclass(frozen=True, eq=False)
class TrainParts(Dataset):
    """A process's parts of all epochs in a row: pictures (part, 3, size, size) in uint8, and labels (part,).

    An epoch has `steps` global batches of `accumulate` parts on each process, and each picture at most once. The
    processes take the parts of the epoch's order in turn. A picture's crop depends on the seed, the epoch and its place
    in the order, not on the number of processes nor on who loads it.
    """

    records: Records
    share: Share
    steps: int
    accumulate: int
    size: int  # pixels
    min_area: float
    seed: int

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        epoch, index = divmod(number, self.steps * self.accumulate)
        first = (index * self.share.size + self.share.rank) * self.share.part
        places = range(first, first + self.share.part)
        positions = _order(len(self.records), self.seed, epoch + 1)
        pictures = torch.empty((self.share.part, 3, self.size, self.size), dtype=torch.uint8)
        labels = torch.empty(self.share.part, dtype=torch.int64)
        for row, place in enumerate(places):
            picture, labels[row] = self.records[positions[place]]
            random = np.random.default_rng([self.seed, epoch + 1, CROP, place])
            pictures.numpy()[row] = train_picture(picture, self.size, self.min_area, random)
        return pictures, labels


@dataclass(frozen=True, eq=False)
class EvalParts(Dataset):
    """A process's parts of the evaluation pictures; together the processes have each one once.

    All parts are of one size: what is missing in the last one is black, with the label `NOBODY`.
    """

    records: Records
    share: Share
    size: int  # pixels
    short_side: int

    def __len__(self) -> int:
        return math.ceil(len(self.records) / (self.share.part * self.share.size))

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pictures = torch.zeros((self.share.part, 3, self.size, self.size), dtype=torch.uint8)
        labels = torch.full((self.share.part,), NOBODY)
        mine = range(self.share.rank, len(self.records), self.share.size)
        for row, position in enumerate(mine[index * self.share.part :][: self.share.part]):
            picture, labels[row] = self.records[position]
            pictures.numpy()[row] = eval_picture(picture, self.size, self.short_side)
        return pictures, labels


@functools.lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the epochs that are being loaded."""
    return order(count, seed, epoch)
