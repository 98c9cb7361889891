"""Reads the layout `hdf5` of Wikipedia: `train/part_%05d_of_%05d.hdf5`, `eval/part_eval.hdf5` and `vocab.txt`.

A file holds N sequences of T tokens with at most P masked positions:
input_ids (N, T) int16, input_mask and segment_ids (N, T) int8, masked_lm_positions and masked_lm_ids (N, P) int16,
next_sentence_labels (N,) int8. The masks were drawn by the preparation. Unused positions are 0: that is [CLS], which
is never masked, so every other position counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import torch
from common.contract import stop
from model import Sizes
from torch import Tensor

FILES_AT_ONCE = 4  # the sequences of this many files are in memory and shuffled together

Rows = dict[str, np.ndarray]  # the datasets of one or several files, in the files' own types


class Batch(NamedTuple):
    """int64 tensors of some sequences; the fields are the datasets of a file."""

    input_ids: Tensor
    input_mask: Tensor
    segment_ids: Tensor
    masked_lm_positions: Tensor
    masked_lm_ids: Tensor
    next_sentence_labels: Tensor

    @property
    def masked_lm_weights(self) -> Tensor:
        """Bool (N, P): which masked positions are used."""
        return self.masked_lm_positions != 0

    def split(self, parts: int) -> list[Batch]:
        """The batch in `parts` parts of equal size."""
        return [Batch(*tensors) for tensors in zip(*(tensor.chunk(parts) for tensor in self), strict=True)]


def vocabulary_size(folder: Path) -> int:
    """The number of word pieces in `vocab.txt`, one a line."""
    path = folder / "vocab.txt"
    if not path.is_file():
        stop(f"{path}: expected the vocabulary, found nothing; is DATADIR Wikipedia, prepared in the layout hdf5?")
    with path.open("rb") as file:
        return sum(1 for _ in file)


def train_files(folder: Path) -> list[Path]:
    """The training files in the order of their names."""
    found = sorted((folder / "train").glob("part_*_of_*.hdf5"))
    if not found:
        stop(f"{folder / 'train'}: expected part_*_of_*.hdf5, found none; prepare Wikipedia in the layout hdf5")
    return found


def read_rows(path: Path, sizes: Sizes) -> Rows:
    """All sequences of one file, checked against the sizes of the net."""
    if not path.is_file():
        stop(f"{path}: expected a file of sequences, found nothing; prepare Wikipedia in the layout hdf5")
    try:
        with h5py.File(path) as file:
            rows = {name: file[name][:] for name in Batch._fields}
    except (OSError, KeyError) as error:
        stop(f"{path}: expected HDF5 with {', '.join(Batch._fields)}; found: {error}; prepare it again")
    _check(path, rows, sizes)
    return rows


def evaluation_batches(rows: Rows, size: int) -> Iterator[Batch]:
    """Every sequence once, in the order of the file; the last batch may be smaller."""
    for first in range(0, len(rows["input_ids"]), size):
        yield _batch(rows, slice(first, first + size))


def training_batches(files: list[Path], size: int, sizes: Sizes, seed: int) -> Iterator[Batch]:
    """Batches of `size` without end: every pass takes the files in a new order and shuffles their sequences.

    A pass reads each file once; what does not fill a batch at its end is dropped.
    """
    draw = np.random.default_rng(seed)
    while True:
        order = draw.permutation(len(files))
        made, rest = 0, []
        for first in range(0, len(order), FILES_AT_ONCE):
            read = [read_rows(files[index], sizes) for index in order[first : first + FILES_AT_ONCE]]
            rows = _shuffled(rest + read, draw)
            whole = len(rows["input_ids"]) // size
            for number in range(whole):
                yield _batch(rows, slice(number * size, (number + 1) * size))
            made += whole
            rest = [{name: values[whole * size :] for name, values in rows.items()}]
        if made == 0:
            found = len(rest[0]["input_ids"])
            stop(f"GLOBAL_BATCH_SIZE={size}: expected at most {found}, the sequences of all training files")


def _shuffled(parts: list[Rows], draw: np.random.Generator) -> Rows:
    order = draw.permutation(sum(len(rows["input_ids"]) for rows in parts))
    return {name: np.concatenate([rows[name] for rows in parts])[order] for name in Batch._fields}


def _batch(rows: Rows, which: slice) -> Batch:
    return Batch(*(torch.from_numpy(rows[name][which].astype(np.int64)) for name in Batch._fields))


def _check(path: Path, rows: Rows, sizes: Sizes) -> None:
    """Stop when the rows cannot belong to each other, to the positions of the net or to its vocabulary."""
    tokens, masked = rows["input_ids"].shape, rows["masked_lm_positions"].shape
    expected = dict(zip(Batch._fields, (tokens, tokens, tokens, masked, masked, tokens[:1]), strict=True))
    if any(rows[name].shape != shape for name, shape in expected.items()) or 0 in masked:
        found = ", ".join(f"{name} {rows[name].shape}" for name in Batch._fields)
        stop(f"{path}: expected sequences, as many in every dataset; found {found}; prepare it again")
    if tokens[1] > sizes.max_position_embeddings:
        stop(
            f"{path}: found sequences of {tokens[1]}, expected MAX_POSITION_EMBEDDINGS={sizes.max_position_embeddings}"
        )
    limits = {
        "input_ids": sizes.vocab_size,
        "input_mask": 2,
        "segment_ids": sizes.type_vocab_size,
        "masked_lm_positions": tokens[1],
        "masked_lm_ids": sizes.vocab_size,
        "next_sentence_labels": 2,
    }
    for name, limit in limits.items():
        low, high = rows[name].min(), rows[name].max()
        if low < 0 or high >= limit:
            stop(f"{path}: expected {name} from 0 to {limit - 1}, found {low} to {high}; is vocab.txt another one?")
    if not rows["masked_lm_positions"].any():
        stop(f"{path}: expected masked positions, found none; prepare it again")
