"""Rows of different lengths, and training instances made of them, held without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

BLOCK = 8192  # instances handled at once: about 60 MB


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, … for `length` numbers, for each pair, one after the other."""
    ends = np.cumsum(lengths)
    numbers = np.repeat(starts - ends + lengths, lengths)
    numbers += np.arange(len(numbers))
    return numbers


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[starts[i]:starts[i + 1]]`."""

    values: np.ndarray
    starts: np.ndarray  # (N + 1,) int64, from 0

    @classmethod
    def of(cls, values: np.ndarray, lengths: np.ndarray) -> Ragged:
        """Rows that lie one after the other in `values`."""
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return cls(values, starts)

    @classmethod
    def of_rows(cls, rows: Sequence[np.ndarray]) -> Ragged:
        """From one array a row."""
        return cls.of(np.concatenate(rows), np.array([len(row) for row in rows]))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray) -> Ragged:
        """The rows with these numbers, in this order."""
        lengths = self.lengths[rows]
        taken = Ragged.of(np.empty(lengths.sum(), self.values.dtype), lengths)
        for first in range(0, len(rows), BLOCK):  # so that the 8-byte numbers of a few rows at a time are held
            some = slice(first, first + BLOCK)
            place = slice(taken.starts[first], taken.starts[min(first + BLOCK, len(rows))])
            taken.values[place] = self.values[ranges(self.starts[rows[some]], lengths[some])]
        return taken

    def sums(self) -> np.ndarray:
        """(N,) int64: the sum of each row."""
        totals = np.concatenate([[0], np.cumsum(self.values, dtype=np.int64)])
        return np.diff(totals[self.starts])

    def padded(self, width: int) -> np.ndarray:
        """(N, width), zeros behind each row."""
        out = np.zeros((len(self), width), self.values.dtype)
        out[np.arange(width) < self.lengths[:, None]] = self.values
        return out

    def rows(self) -> np.ndarray:
        """(N,) objects, one array a row."""
        rows = np.empty(len(self), object)
        for number, (start, stop) in enumerate(pairwise(self.starts.tolist())):
            rows[number] = self.values[start:stop]
        return rows


@dataclass(frozen=True)
class Instances:
    """N sentence pairs `[CLS] A [SEP] B [SEP]` with masked words; the fields of the reference without padding."""

    input_ids: Ragged  # int16, masks applied
    first_lengths: np.ndarray  # (N,) int16: pieces of segment 0, that is [CLS] A [SEP]
    masked_lm_positions: Ragged  # int16, ascending
    masked_lm_ids: Ragged  # int16, what stood there
    next_sentence_labels: np.ndarray  # (N,) int8, 1 = B is a random text

    def __len__(self) -> int:
        return len(self.next_sentence_labels)

    def take(self, rows: np.ndarray) -> Instances:
        """The instances with these numbers, in this order."""
        return Instances(
            **{
                field.name: value.take(rows) if isinstance(value := getattr(self, field.name), Ragged) else value[rows]
                for field in fields(self)
            }
        )

    def input_mask(self) -> Ragged:
        """int8 rows beside `input_ids`: 1 for each token."""
        return Ragged(np.ones(len(self.input_ids.values), np.int8), self.input_ids.starts)

    def segment_ids(self) -> Ragged:
        """int8 rows beside `input_ids`: 0 for the first segment, 1 for the second."""
        lengths = self.input_ids.lengths
        place = np.arange(len(self.input_ids.values)) - np.repeat(self.input_ids.starts[:-1], lengths)
        return Ragged((place >= np.repeat(self.first_lengths, lengths)).astype(np.int8), self.input_ids.starts)


def joined(pieces: Sequence[Instances]) -> Instances:
    """The instances of all pieces, one after the other."""

    def join(name: str) -> Ragged | np.ndarray:
        parts = [getattr(piece, name) for piece in pieces]
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)
        return Ragged.of(np.concatenate([p.values for p in parts]), np.concatenate([p.lengths for p in parts]))

    return Instances(**{field.name: join(field.name) for field in fields(Instances)})
