"""Generated pictures for the self-test (common/selftest.py): three steps of four, and four to evaluate."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import simplejpeg

SETTINGS = {
    **{"TRAIN_SAMPLES": 12, "EVAL_SAMPLES": 4, "GLOBAL_BATCH_SIZE": 4, "GRADIENT_ACCUMULATION_STEPS": 1},
    **{"MAX_EPOCHS": 1, "FIRST_EVAL": 1, "WARMUP_EPOCHS": 0, "BASE_LR": 0.1, "TARGET": 0},
}
MAGIC = 0xCED7230A


def write(folder: Path) -> None:
    """`{train,val}.{rec,idx}`: the layout `recordio`, read by data.py."""
    for split, count in (("train", 12), ("val", 4)):
        records = [_record(number, number % 8) for number in range(count)]
        offsets = np.cumsum([0, *map(len, records)])
        (folder / f"{split}.rec").write_bytes(b"".join(records))
        index = "".join(f"{number}\t{offset}\n" for number, offset in enumerate(offsets[:-1]))
        (folder / f"{split}.idx").write_text(index)


def _record(number: int, label: int) -> bytes:
    """One record: RecordIO's magic and length, MXNet's header, a JPEG, zeros up to a multiple of 4."""
    pixels = np.random.default_rng(number).integers(0, 256, size=(40, 44, 3), dtype=np.uint8)
    payload = struct.pack("<IfQQ", 0, label, number, 0) + simplejpeg.encode_jpeg(pixels)
    return struct.pack("<II", MAGIC, len(payload)) + payload + bytes(-len(payload) % 4)
