"""The demo's ImageNet: generated pictures in the form in which ImageNet is distributed.

Eight kinds of picture, four shapes and four textures, with random colours, place, scale and noise; none changes its
kind when it is mirrored. Two calls write the same bytes.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import simplejpeg

TRAIN_PER_KIND, VAL_PER_KIND = 64, 20
SIDES = (36, 45)  # pixels, smallest and one more than the largest
SEED = 2012

# A kind is a function of two coordinate fields to a truth field; the figure fills -1..1 in both directions.
Kind = Callable[[np.ndarray, np.ndarray], np.ndarray]
KINDS: dict[str, Kind] = {  # invented synsets: none of them is in WordNet
    "n90000001": lambda y, x: x**2 + y**2 < 1,
    "n90000002": lambda y, x: np.maximum(abs(x), abs(y)) < 0.85,
    "n90000003": lambda y, x: (abs(y) < 0.9) & (abs(x) < (y + 0.9) / 1.8),
    "n90000004": lambda y, x: (np.minimum(abs(x), abs(y)) < 0.28) & (np.maximum(abs(x), abs(y)) < 1),
    "n90000005": lambda y, x: np.sin(9 * y) > 0,
    "n90000006": lambda y, x: np.sin(9 * x) > 0,
    "n90000007": lambda y, x: np.sin(8 * x) * np.sin(8 * y) > 0,
    "n90000008": lambda y, x: np.sin(11 * np.hypot(x, y)) > 0,
}


def make(to: Path) -> None:
    """Write ILSVRC2012_img_train.tar (a tar of `<wnid>.tar`), ILSVRC2012_img_val.tar (flat) and the labels of the
    validation pictures (one wnid a line, in file-name order) into the folder `to`.
    """
    random = np.random.default_rng(SEED)
    classes = []
    for wnid, kind in KINDS.items():
        pictures = ((f"{wnid}_{number}.JPEG", _jpeg(kind, random)) for number in range(TRAIN_PER_KIND))
        classes.append((f"{wnid}.tar", _tar(pictures)))
    (to / "ILSVRC2012_img_train.tar").write_bytes(_tar(classes))

    labels = random.permutation(list(KINDS) * VAL_PER_KIND)
    pictures = (
        (f"ILSVRC2012_val_{number:08d}.JPEG", _jpeg(KINDS[wnid], random)) for number, wnid in enumerate(labels, start=1)
    )
    (to / "ILSVRC2012_img_val.tar").write_bytes(_tar(pictures))
    (to / "imagenet_2012_validation_synset_labels.txt").write_text("".join(f"{wnid}\n" for wnid in labels))


def _jpeg(kind: Kind, random: np.random.Generator) -> bytes:
    """One picture of the kind, as a baseline JPEG of quality 90."""
    height, width = random.integers(*SIDES, size=2)
    scale = random.uniform(0.55, 0.95) * min(height, width) / 2
    middle_y, middle_x = (side / 2 + random.uniform(-0.1, 0.1) * side for side in (height, width))
    y, x = np.ogrid[:height, :width]
    figure = kind((y - middle_y) / scale, (x - middle_x) / scale)

    ground = random.uniform(70, 185, size=3)
    contrast = random.choice([-1, 1]) * random.uniform(30, 80, size=3)  # lighter, or darker, in all three colours
    picture = ground + figure[:, :, None] * contrast + random.normal(0, 12, size=(height, width, 3))
    return simplejpeg.encode_jpeg(np.clip(picture, 0, 255).astype(np.uint8), quality=90, colorspace="RGB")


def _tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A tar of the named contents, owned by nobody and dated 1970, so that the bytes depend on the content alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return buffer.getvalue()
