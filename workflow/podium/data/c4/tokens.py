"""Documents to Megatron's token files: pieces side by side, then one behind the other.

Equal to NVIDIA/Megatron-LM d98e8a64, tools/preprocess_data.py with a tokenizer of Hugging Face, without special tokens
and `--append-eod`: a document is one sequence, and one that has no token is a document without a sequence.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from podium import files
from podium.data.c4 import tokenizer
from podium.data.c4.pieces import Output, Piece
from podium.data.formats import megatron

BATCH = 1 << 20  # characters that are tokenized in one go, or a single longer text


def tokenize(piece: Piece, path: Path, sha256: str, dtype: np.dtype, work: Path) -> None:
    """Write the tokens of a piece into `work`, then how many each document has; nothing where that is noted."""
    note = work / f"{piece.name}.npy"
    if note.exists():
        return
    encode, lengths = tokenizer.encoder(path, sha256), []
    with files.writing(work / f"{piece.name}.bin") as file:
        for texts in _batches(piece.texts()):
            tokens = encode(texts)
            counts = [len(one) for one in tokens]
            file.write(np.fromiter(chain.from_iterable(tokens), dtype, sum(counts)))
            lengths.append(np.array(counts, "<i4"))
    with files.writing(note) as file:
        np.save(file, np.concatenate(lengths))


def join(output: Output, work: Path, to: Path, dtype: np.dtype) -> tuple[int, int]:
    """Put the tokens of all pieces one behind the other, and write their index: how many documents and tokens.

    A piece's own file goes as soon as it is copied, so that the disk holds no piece more than the whole.
    """
    path, place, lengths = to / f"{output.name}.bin", 0, []
    with files.explained(path):
        path.touch()
        with path.open("r+b") as file:
            for piece in output.pieces:
                lengths.append(np.load(work / f"{piece.name}.npy", mmap_mode="r"))
                _append(work / f"{piece.name}.bin", file, place)
                place += int(lengths[-1].sum(dtype=np.int64)) * dtype.itemsize
            file.truncate(place)
    megatron.write_index(to / f"{output.name}.idx", dtype, lengths)
    return sum(len(one) for one in lengths), place // dtype.itemsize


def _append(data: Path, file: IO[bytes], place: int) -> None:
    """Copy a piece to its place; where it is gone it was copied in an earlier try."""
    if not data.exists():
        return
    file.seek(place)
    with data.open("rb") as source:
        shutil.copyfileobj(source, file, files.CHUNK)
    file.flush()
    os.fsync(file.fileno())
    data.unlink()


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
