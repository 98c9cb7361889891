"""Generated data of the real sets' usual sizes: pictures, volumes, speech, sequences."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import simplejpeg

from implementations.wikipedia import Rows

SECONDS = 12.3  # LibriSpeech's mean
LABELS = 46  # word pieces of such an utterance
TOKENS, MASKED, VOCABULARY = 512, 76, 30522
MEAN_TOKENS = 254  # Wikipedia's


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


def write_cases(folder: Path, count: int) -> None:
    """The layout `npy` of volumes of 160 x 300 x 300 with a kidney and a tumour."""
    random = np.random.default_rng(0)
    shape = (1, 160, 300, 300)
    label = np.zeros(shape, np.uint8)
    label[:, 60:100, 80:140, 180:240], label[:, 70:90, 100:120, 200:220] = 1, 2
    for number in range(count):
        np.save(folder / f"case_{number:05d}_x.npy", random.standard_normal(shape, np.float32))
        np.save(folder / f"case_{number:05d}_y.npy", label)
    (folder / "train_cases.txt").write_text("".join(f"{number:05d}\n" for number in range(count)))


def write_speech(folder: Path, count: int) -> list[Path]:
    """WAV files of `SECONDS` around it, of noise that swells and fades."""
    random, paths = np.random.default_rng(0), []
    for number in range(count):
        samples = int(16_000 * SECONDS * (0.5 + number / max(count - 1, 1)))
        loudness = 3000 * np.sin(np.linspace(0, 20, samples)) ** 2
        path = folder / f"{number}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16_000, samples, "NONE", ""))
            file.writeframes((random.standard_normal(samples) * loudness).astype("<i2").tobytes())
        paths.append(path)
    return paths


def sequences(count: int) -> Rows:
    """The datasets of the layout `hdf5`: a tenth of the sequences is full, the others are of any length."""
    random = np.random.default_rng(0)
    lengths = np.where(random.random(count) < 0.1, TOKENS, random.integers(20, 2 * MEAN_TOKENS - 76, count))
    used = np.minimum(lengths * 15 // 100, MASKED)
    token, slot = np.arange(TOKENS), np.arange(MASKED)
    mask, masked = token < lengths[:, None], slot < used[:, None]
    return {
        "input_ids": (random.integers(1, VOCABULARY, mask.shape) * mask).astype("i2"),
        "input_mask": mask.astype("i1"),
        "segment_ids": ((token > lengths[:, None] // 2) & mask).astype("i1"),
        "masked_lm_positions": ((1 + slot * 6) * masked).astype("i2"),
        "masked_lm_ids": (random.integers(1, VOCABULARY, masked.shape) * masked).astype("i2"),
        "next_sentence_labels": random.integers(0, 2, count).astype("i1"),
    }
