"""From sequences to the batches that the network sees: order, parts, and several sequences in one row.

A global batch is cut into parts of equally many sequences, which the processes take in turn. What is in a part depends
on the seed and on the number of all parts, not on the number of processes: two processes of one part each see the same
as one process with two.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import data
import numpy as np
import torch
from common import loading
from common.contract import stop
from data import Sequences
from model import Sizes
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES_AT_ONCE = 4  # the rows of this many files are in memory and shuffled together
IN_A_ROW = 3  # sequences at most
PARTS_AHEAD = 64  # for each loading process: it makes no parts while it reads the next files


class Row(NamedTuple):
    """A row of a file, which has `count` sequences."""

    sequences: Sequences
    index: int
    count: int


class Batch(NamedTuple):
    """N rows of T tokens that hold S sequences with M masked words; int64 tensors."""

    input_ids: Tensor  # (N, T), 0 where there is no token
    segments: Tensor  # (N, T) 0 or 1
    positions: Tensor  # (N, T) in the sequence
    owners: Tensor  # (N, T) the sequence in its row, from 1; 0 where there is none
    masked_at: Tensor  # (M,) among the N * T tokens
    first_at: Tensor  # (S,) where the sequences begin, among the N * T tokens
    masked_ids: Tensor  # (M,) the words that were masked
    next_labels: Tensor  # (S,)

    def to(self, device: torch.device) -> Batch:
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))


@dataclass(frozen=True)
class Cut:
    """How a global batch is cut: into `parts` of `part` sequences, which `size` processes take in turn."""

    part: int
    parts: int = 1
    rank: int = 0
    size: int = 1


class TrainParts(IterableDataset):
    """A process's parts of all global batches in order, without end."""

    def __init__(self, files: Sequence[Path], sizes: Sizes, cut: Cut, seed: int, pack: bool) -> None:
        self.files, self.sizes, self.cut, self.seed, self.pack = files, sizes, cut, seed, pack

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()  # workers take this process's parts in turn, and the loader asks them in turn
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        first = number * self.cut.size + self.cut.rank
        everything = training_parts(self.files, self.sizes, self.cut, self.seed)
        for rows in itertools.islice(everything, first, None, self.cut.size * workers):
            yield collate(rows, self.sizes.max_position_embeddings, self.pack)


def training_parts(files: Sequence[Path], sizes: Sizes, cut: Cut, seed: int) -> Iterator[list[Row]]:
    """The parts of all processes: every pass takes the files, and the rows of some files at once, in a new order.

    A pass reads each file once; what does not fill a global batch at its end is dropped.
    """
    draw = np.random.default_rng(seed)
    while True:
        parts = cut_up(_pass(files, sizes, cut, draw), cut.part)
        made = 0
        while len(batch := list(itertools.islice(parts, cut.parts))) == cut.parts:
            yield from batch
            made += 1
        if made == 0:
            stop(
                f"GLOBAL_BATCH_SIZE={cut.part * cut.parts}: expected no more sequences than there are in all "
                f"{len(files)} training files; prepare more, or set a smaller one"
            )


def cut_up(rows: Iterable[Row], part: int) -> Iterator[list[Row]]:
    """Rows in their order with `part` sequences each; a row that has too many waits for the next part."""
    rows, waiting = iter(rows), collections.deque()
    while True:
        chosen, missing, skipped = [], part, []
        while missing:
            row = waiting.popleft() if waiting else next(rows, None)
            if row is None:
                return
            if row.count > missing:
                skipped.append(row)
            else:
                chosen.append(row)
                missing -= row.count
        waiting.extendleft(reversed(skipped))
        yield chosen


def rows_of(sequences: Sequences) -> list[Row]:
    """The rows of a file in their order."""
    return [Row(sequences, index, count) for index, count in enumerate(np.diff(sequences.rows).tolist())]


def evaluation_batches(
    sequences: Sequences, size: int, rank: int, processes: int, width: int, pack: bool
) -> list[Batch]:
    """The process's share of the evaluation: all processes together have every row once."""
    mine = rows_of(sequences)[rank::processes]
    return [collate(mine[first : first + size], width, pack) for first in range(0, len(mine), size)]


def loader(parts: IterableDataset, workers: int, device: torch.device) -> DataLoader:
    """Makes the parts in order, ahead in `workers` processes; 0: between two steps."""
    return DataLoader(
        parts,
        batch_size=None,
        num_workers=workers,
        worker_init_fn=loading.end_with_parent,
        prefetch_factor=PARTS_AHEAD if workers else None,
        pin_memory=device.type == "cuda",
    )


def collate(rows: Sequence[Row], width: int, pack: bool) -> Batch:
    """The rows as a batch of rows of `width` tokens: each by itself, or with others where they fit (`pack`)."""
    lengths = [_extent(row)[1] - _extent(row)[0] for row in rows]
    places = fit(lengths, [row.count for row in rows], width) if pack else [(n, 0, 0) for n in range(len(rows))]
    shape = (1 + max(line for line, _, _ in places), width)
    input_ids, segments, positions, owners = (np.zeros(shape, np.int64) for _ in range(4))
    masked_at, words, first_at, labels = [], [], [], []
    for (sequences, index, count), (line, column, before) in zip(rows, places, strict=True):
        for number in range(count):
            which = sequences.rows[index] + number
            first, last = sequences.tokens[which : which + 2]
            here = slice(column, column + last - first)
            input_ids[line, here] = sequences.ids[first:last]
            segments[line, here] = sequences.segments[first:last]
            positions[line, here] = np.arange(last - first)
            owners[line, here] = before + number + 1
            first_at.append(line * width + column)
            labels.append(sequences.labels[which])
            masked = slice(*sequences.masked[which : which + 2])
            masked_at.append(first_at[-1] + sequences.places[masked].astype(np.int64))
            words.append(sequences.words[masked])
            column += last - first
    flat = (np.concatenate(masked_at), np.array(first_at), np.concatenate(words), np.array(labels))
    return Batch(
        *map(torch.from_numpy, (input_ids, segments, positions, owners)),
        *(torch.from_numpy(values.astype(np.int64)) for values in flat),
    )


def fit(lengths: Sequence[int], counts: Sequence[int], width: int) -> list[tuple[int, int, int]]:
    """Where each goes: line, column, and how many sequences before it. The longest first, to the first that fits."""
    places: list[tuple[int, int, int]] = [(0, 0, 0)] * len(lengths)
    lines: list[list[int]] = []  # tokens and sequences of each
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        length, count = lengths[number], counts[number]
        line = next((i for i, (t, s) in enumerate(lines) if t + length <= width and s + count <= IN_A_ROW), len(lines))
        if line == len(lines):
            lines.append([0, 0])
        places[number] = (line, *lines[line])
        lines[line][0] += length
        lines[line][1] += count
    return places


def longest(count: int, sizes: Sizes) -> Batch:
    """So many sequences as long as can be, to warm up on; 15 % of each is masked.

    No tensor is there twice: what is compiled for two that are the same is compiled again for two that are not.
    """
    width = sizes.max_position_embeddings
    everything = torch.arange(count * width).view(count, width)
    masked_at = everything[:, 1 : 1 + max(width * 15 // 100, 1)].flatten()
    return Batch(
        input_ids=torch.zeros_like(everything),
        segments=torch.zeros_like(everything),
        positions=everything % width,
        owners=torch.ones_like(everything),
        masked_at=masked_at,
        first_at=everything[:, 0].clone(),
        masked_ids=torch.zeros_like(masked_at),
        next_labels=torch.zeros_like(everything[:, 0]),
    )


def _pass(files: Sequence[Path], sizes: Sizes, cut: Cut, draw: np.random.Generator) -> Iterator[Row]:
    order = draw.permutation(len(files))
    for first in range(0, len(order), FILES_AT_ONCE):
        read = [_read(files[index], sizes, cut) for index in order[first : first + FILES_AT_ONCE]]
        rows = [row for sequences in read for row in rows_of(sequences)]
        for number in draw.permutation(len(rows)):
            yield rows[number]


def _extent(row: Row) -> np.ndarray:
    """Where the tokens of a row begin and end in the file."""
    return row.sequences.tokens[row.sequences.rows[[row.index, row.index + 1]]]


def _read(path: Path, sizes: Sizes, cut: Cut) -> Sequences:
    sequences = data.read(path, sizes)
    most = int(np.diff(sequences.rows).max())
    if most > min(IN_A_ROW, cut.part):
        stop(
            f"{path}: found {most} sequences in a row, expected at most {IN_A_ROW} and no more than the {cut.part} of "
            "a part; set a lower GRADIENT_ACCUMULATION_STEPS"
        )
    return sequences
