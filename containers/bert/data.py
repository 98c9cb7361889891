"""Reads Wikipedia as `podium prepare` lays it out: `train/part_%05d_of_%05d.hdf5`, `eval/part_eval.hdf5`, `vocab.txt`.

The masks were drawn by the preparation. A file is of one of three kinds, which its datasets tell apart:

- rows of one length (layout `hdf5`): a sequence a row, padded with 0. input_ids (N, T) int16, input_mask and
  segment_ids (N, T) int8, masked_lm_positions and masked_lm_ids (N, P) int16, next_sentence_labels (N,) int8. An unused
  masked position is 0: that is [CLS], which is never masked.
- rows of variable length (`hdf5-varlength`, `hdf5-shuffled`): the same without padding, and without input_mask.
- packed rows: of variable length, with several sequences one after the other; masked_lm_positions count from the
  beginning of the row. packed_input_len and packed_masked_lm_len say how long each sequence is and how many masked
  words it has; next_sentence_labels are of variable length too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from common.contract import stop
from model import Sizes

NAMES = ("input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
PACKED = ("packed_input_len", "packed_masked_lm_len")


@dataclass(frozen=True, eq=False)
class Sequences:
    """The S sequences of a file in their R rows, without padding, in the file's own types.

    Sequence s has the tokens tokens[s] .. tokens[s + 1] - 1 and the masked words masked[s] .. masked[s + 1] - 1; row r
    has the sequences rows[r] .. rows[r + 1] - 1, which is one but in a packed file.
    """

    ids: np.ndarray  # (tokens,)
    segments: np.ndarray  # (tokens,)
    tokens: np.ndarray  # (S + 1,)
    places: np.ndarray  # (masked words,) counted from the beginning of their sequence
    words: np.ndarray  # (masked words,) what was there before
    masked: np.ndarray  # (S + 1,)
    labels: np.ndarray  # (S,) 1: the second piece of text does not follow the first one
    rows: np.ndarray  # (R + 1,)

    def __len__(self) -> int:
        return len(self.labels)


def vocabulary_size(folder: Path) -> int:
    """The number of word pieces in `vocab.txt`, one a line."""
    path = folder / "vocab.txt"
    if not path.is_file():
        stop(f"{path}: expected the vocabulary, found nothing; is DATADIR Wikipedia, prepared in a layout hdf5…?")
    with path.open("rb") as file:
        return sum(1 for _ in file)


def train_files(folder: Path) -> list[Path]:
    """The training files in the order of their names; ends the process where one of them is missing."""
    found = sorted((folder / "train").glob("part_*_of_*.hdf5"))
    if not found:
        stop(f"{folder / 'train'}: expected part_*_of_*.hdf5, found none; prepare Wikipedia in a layout hdf5…")
    count = int(re.search(r"_of_(\d+)", found[0].name)[1])
    missing = [name for name in _names(count) if not (folder / "train" / name).is_file()]
    if missing or len(found) != count:
        what = missing[0] if missing else f"{len(found)} files"
        stop(f"{folder / 'train'}: expected {count} files, found {len(found)}; see {what}; prepare it again")
    return found


def read(path: Path, sizes: Sizes) -> Sequences:
    """All sequences of a file, checked against the sizes of the network."""
    if not path.is_file():
        stop(f"{path}: expected a file of sequences, found nothing; prepare Wikipedia in a layout hdf5…")
    try:
        with h5py.File(path) as file:
            fixed = "input_mask" in file
            names = NAMES + (("input_mask",) if fixed else tuple(name for name in PACKED if name in file))
            columns = {name: file[name][:] for name in names}
            sequences = _of_fixed(columns) if fixed else _of_variable(columns)
    except (OSError, KeyError, ValueError) as error:
        stop(f"{path}: expected HDF5 with {', '.join(NAMES)}, as many rows in each; found: {error}; prepare it again")
    _check(path, sequences, sizes)
    return sequences


def _of_fixed(columns: dict[str, np.ndarray]) -> Sequences:
    mask = columns["input_mask"] != 0
    used = columns["masked_lm_positions"] != 0
    for name, like in (("input_ids", mask), ("segment_ids", mask), ("masked_lm_ids", used)):
        if columns[name].shape != like.shape:
            raise ValueError(f"{name} {columns[name].shape} beside {like.shape}")
    if not mask[:, :1].all() or (mask[:, 1:] > mask[:, :-1]).any():
        raise ValueError("input_mask with a gap")
    return Sequences(
        ids=columns["input_ids"][mask],
        segments=columns["segment_ids"][mask],
        tokens=_starts(mask.sum(1)),
        places=columns["masked_lm_positions"][used],
        words=columns["masked_lm_ids"][used],
        masked=_starts(used.sum(1)),
        labels=_as_many(columns["next_sentence_labels"], len(mask)),
        rows=np.arange(len(mask) + 1),
    )


def _of_variable(columns: dict[str, np.ndarray]) -> Sequences:
    ids, row_lengths = _joined(columns["input_ids"])
    segments, segment_lengths = _joined(columns["segment_ids"])
    places, row_masked = _joined(columns["masked_lm_positions"])
    words, word_counts = _joined(columns["masked_lm_ids"])
    if not np.array_equal(row_lengths, segment_lengths) or not np.array_equal(row_masked, word_counts):
        raise ValueError("rows of unequal length")
    if PACKED[0] not in columns:
        tokens, masked = _starts(row_lengths), _starts(row_masked)
        labels = _as_many(columns["next_sentence_labels"], len(row_lengths))
        return Sequences(ids, segments, tokens, places, words, masked, labels, np.arange(len(row_lengths) + 1))

    lengths, in_row = _joined(columns[PACKED[0]])
    counts, count_lengths = _joined(columns[PACKED[1]])
    labels, label_lengths = _joined(columns["next_sentence_labels"])
    rows, tokens, masked = _starts(in_row), _starts(lengths), _starts(counts)
    agree = np.array_equal(in_row, count_lengths) and np.array_equal(in_row, label_lengths)
    if not agree or not np.array_equal(tokens[rows], _starts(row_lengths)):
        raise ValueError("packed sequences that do not fill their rows")
    if not np.array_equal(masked[rows], _starts(row_masked)):
        raise ValueError("packed sequences with other masked words than their rows")
    offsets = tokens[:-1] - np.repeat(tokens[rows[:-1]], in_row)  # of a sequence in its row
    return Sequences(ids, segments, tokens, places - np.repeat(offsets, counts), words, masked, labels, rows)


def _joined(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of variable length one after the other, and their lengths."""
    if rows.dtype != object:
        raise ValueError(f"rows of one length, {rows.shape}, without input_mask")
    return np.concatenate(list(rows)), np.fromiter(map(len, rows), np.int64, len(rows))


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Where each of them begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _as_many(labels: np.ndarray, count: int) -> np.ndarray:
    if labels.shape != (count,):
        raise ValueError(f"next_sentence_labels {labels.shape} beside {count} rows")
    return labels


def _names(count: int) -> Iterator[str]:
    return (f"part_{number:05d}_of_{count:05d}.hdf5" for number in range(count))


def _check(path: Path, sequences: Sequences, sizes: Sizes) -> None:
    """Stop where the sequences belong neither to the vocabulary nor to the positions of the network."""
    limits = {
        "input_ids": (sequences.ids, sizes.vocab_size),
        "segment_ids": (sequences.segments, sizes.type_vocab_size),
        "masked_lm_ids": (sequences.words, sizes.vocab_size),
        "next_sentence_labels": (sequences.labels, 2),
    }
    for name, (values, limit) in limits.items():
        if values.size == 0:
            stop(f"{path}: expected {name}, found none; prepare it again")
        if values.min() < 0 or values.max() >= limit:
            found = f"{values.min()} to {values.max()}"
            stop(f"{path}: expected {name} from 0 to {limit - 1}, found {found}; is vocab.txt another one?")
    lengths = np.diff(sequences.tokens)
    ends = np.repeat(lengths, np.diff(sequences.masked))
    if lengths.min() < 1 or (sequences.places < 1).any() or (sequences.places >= ends).any():
        stop(f"{path}: expected masked_lm_positions in their sequence, after [CLS]; prepare it again")
    longest = np.diff(sequences.tokens[sequences.rows]).max()
    if longest > sizes.max_position_embeddings:
        expected = f"at most MAX_POSITION_EMBEDDINGS={sizes.max_position_embeddings}"
        stop(f"{path}: found rows of {longest} tokens, expected {expected}")
