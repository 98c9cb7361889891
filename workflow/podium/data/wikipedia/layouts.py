"""The files that implementations read: instances, block by block, as HDF5 (fixed or variable length) or TFRecord."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import h5py
import numpy as np

from podium import files
from podium.data.formats import hdf5, tfrecord
from podium.data.wikipedia import examples
from podium.data.wikipedia.instances import Recipe
from podium.data.wikipedia.ragged import BLOCK, Instances, Ragged

Blocks = Iterable[Instances]
Writer = Callable[[Path, int, Blocks], None]  # writes so many instances, given in blocks, to a file
ROWS = ("input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids")  # the datasets of variable length
LENGTHS, MASKED = "packed_input_len", "packed_masked_lm_len"  # of a packed row: tokens, masked places of each sequence
TEXT = "text"  # the layout that is the published text, for WikiExtractor's files


@dataclass(frozen=True)
class Arranged:
    """Another order than that of the text parts, and where each training file's list of its origins is: JSON, a list of
    lists of numbers, `width` for each sequence.
    """

    listed: str
    width: int


SHUFFLED = Arranged("indices/shard_indices_{:05d}.lst", 2)  # shard and row; NVIDIA's list
PACKED = Arranged("indices/samples_{:05d}.lst", 1)  # of each sample, which of all parts' sequences


@dataclass(frozen=True)
class Layout:
    """A kind of file: how it is named, written and read again in blocks."""

    line: str
    suffix: str
    write: Callable[[Path, int, Blocks, Recipe], None]
    read: Callable[[Path], Iterator[Instances]]
    growth: float  # bytes for each byte of the published text that is used once, at the benchmark's lengths
    arranged: Arranged | None = None

    def train_name(self, number: int, of: int) -> str:
        """The name of a training file below the layout's folder."""
        return f"train/part_{number:05d}_of_{of:05d}.{self.suffix}"

    @property
    def eval_name(self) -> str:
        return f"eval/part_eval.{self.suffix}"


def write_fixed(path: Path, count: int, blocks: Blocks, recipe: Recipe) -> None:
    """The six datasets of the NVIDIA reference, rows padded with zeros, not compressed.

    input_ids (N, T) int16, input_mask and segment_ids (N, T) int8, masked_lm_positions and masked_lm_ids (N, P) int16,
    next_sentence_labels (N,) int8. Source: training_results_v3.0@63e326c4 NVIDIA bert create_pretraining_data.py.
    """
    length, predictions = recipe.max_seq_length, recipe.max_predictions_per_seq
    with hdf5.writing(path) as file:
        ids = file.create_dataset("input_ids", (count, length), "i2")
        mask = file.create_dataset("input_mask", (count, length), "i1")
        segments = file.create_dataset("segment_ids", (count, length), "i1")
        positions = file.create_dataset("masked_lm_positions", (count, predictions), "i2")
        labels = file.create_dataset("masked_lm_ids", (count, predictions), "i2")
        random_next = file.create_dataset("next_sentence_labels", (count,), "i1")
        for rows, block in _placed(blocks):
            ids[rows] = block.input_ids.padded(length)
            mask[rows] = block.input_mask().padded(length)
            segments[rows] = block.segment_ids().padded(length)
            positions[rows] = block.masked_lm_positions.padded(predictions)
            labels[rows] = block.masked_lm_ids.padded(predictions)
            random_next[rows] = block.next_sentence_labels


def read_fixed(path: Path) -> Iterator[Instances]:
    """The instances of a file of `write_fixed`. A row ends where its mask does, its masked places where they turn 0."""
    with h5py.File(path) as file:
        for rows in _slices(len(file["next_sentence_labels"])):
            mask = file["input_mask"][rows] != 0
            positions = file["masked_lm_positions"][rows]
            yield _instances(
                _cut(file["input_ids"][rows], mask),
                _cut(file["segment_ids"][rows], mask),
                _cut(positions, positions != 0),
                _cut(file["masked_lm_ids"][rows], positions != 0),
                file["next_sentence_labels"][rows],
            )


def write_varlength(path: Path, count: int, blocks: Blocks, recipe: Recipe) -> None:
    """NVIDIA's variable-length datasets: int16 rows (segment_ids int8) without padding, and no input_mask.

    Source: training_results_v3.0@63e326c4 NVIDIA bert convert_fixed2variable.py.
    """
    del recipe  # rows are as long as they are
    short, byte = h5py.vlen_dtype(np.dtype("i2")), h5py.vlen_dtype(np.dtype("i1"))
    with hdf5.writing(path) as file:
        ids = file.create_dataset("input_ids", (count,), short)
        segments = file.create_dataset("segment_ids", (count,), byte)
        positions = file.create_dataset("masked_lm_positions", (count,), short)
        labels = file.create_dataset("masked_lm_ids", (count,), short)
        random_next = file.create_dataset("next_sentence_labels", (count,), "i1")
        for rows, block in _placed(blocks):
            ids.write_direct(_objects(block.input_ids), dest_sel=rows)
            segments.write_direct(_objects(block.segment_ids()), dest_sel=rows)
            positions.write_direct(_objects(block.masked_lm_positions), dest_sel=rows)
            labels.write_direct(_objects(block.masked_lm_ids), dest_sel=rows)
            random_next[rows] = block.next_sentence_labels


def read_varlength(path: Path) -> Iterator[Instances]:
    """The instances of a file of `write_varlength`."""
    with h5py.File(path) as file:
        for rows in _slices(len(file["next_sentence_labels"])):
            yield _instances(*(Ragged.of_rows(file[name][rows]) for name in ROWS), file["next_sentence_labels"][rows])


def write_packed(path: Path, instances: Instances, per_sample: np.ndarray) -> None:
    """NVIDIA's packed datasets: each row the next `per_sample[row]` instances, all of variable length.

    input_ids, masked_lm_positions (from the start of the row), masked_lm_ids and, beside the labels one for each
    instance, packed_input_len and packed_masked_lm_len are int16, segment_ids and next_sentence_labels int8. Source:
    training_results_v3.0@63e326c4 NVIDIA bert packed_data/create_packed_trainset.py.
    """
    firsts = np.concatenate([[0], np.cumsum(per_sample)])  # the first instance of each row
    lengths, masked = instances.input_ids.lengths, instances.masked_lm_positions.lengths
    within = instances.input_ids.starts[:-1] - np.repeat(instances.input_ids.starts[firsts[:-1]], per_sample)
    positions = instances.masked_lm_positions
    moved = Ragged((positions.values + np.repeat(within, masked)).astype(np.int16), positions.starts)
    ragged = (instances.input_ids, instances.segment_ids(), moved, instances.masked_lm_ids)
    columns = {name: Ragged(rows.values, rows.starts[firsts]) for name, rows in zip(ROWS, ragged, strict=True)}
    columns |= {
        LENGTHS: Ragged(lengths.astype(np.int16), firsts),
        MASKED: Ragged(masked.astype(np.int16), firsts),
        "next_sentence_labels": Ragged(instances.next_sentence_labels, firsts),
    }
    with hdf5.writing(path) as file:
        for name, rows in columns.items():
            dataset = file.create_dataset(name, (len(per_sample),), h5py.vlen_dtype(rows.values.dtype))
            dataset.write_direct(_objects(rows))


def read_packed(path: Path) -> Iterator[Instances]:
    """The instances of a file of `write_packed`, or of the evaluation file beside it, which is not packed.

    Raises ValueError where the lengths of a row do not make up the row.
    """
    with h5py.File(path) as file:
        if LENGTHS not in file:
            yield from read_varlength(path)
            return
        for rows in _slices(len(file[LENGTHS])):
            yield _unpacked({name: Ragged.of_rows(file[name][rows]) for name in file})


def _unpacked(columns: dict[str, Ragged]) -> Instances:
    lengths, masked, labels = columns[LENGTHS], columns[MASKED], columns["next_sentence_labels"]
    sums = {
        "input_ids": lengths,
        "segment_ids": lengths,
        "masked_lm_positions": masked,
        "masked_lm_ids": masked,
    }
    wrong = {name for name, parts in sums.items() if (columns[name].lengths != parts.sums()).any()}
    wrong |= {name for name, parts in ((LENGTHS, lengths), (MASKED, masked)) if (parts.lengths != labels.lengths).any()}
    if wrong:
        raise ValueError(f"rows whose {', '.join(sorted(wrong))} do not fit the number of their sequences")
    ids, segments, positions, words = (Ragged.of(columns[name].values, parts.values) for name, parts in sums.items())
    within = ids.starts[:-1] - np.repeat(columns["input_ids"].starts[:-1], lengths.lengths)
    moved = (positions.values - np.repeat(within, masked.values)).astype(np.int16)
    return _instances(ids, segments, Ragged(moved, positions.starts), words, labels.values)


def write_tfrecord(path: Path, count: int, blocks: Blocks, recipe: Recipe) -> None:
    """A TFRecord file of tf.train.Example, one for each instance."""
    del count  # the format has no head
    with files.writing(path) as file:
        for block in blocks:
            for record in examples.encode(block, recipe):
                file.writelines(tfrecord.frame(record))


def read_tfrecord(path: Path) -> Iterator[Instances]:
    """The instances of a TFRecord file, each crc checked."""
    for rows in map(examples.decode, _batches(tfrecord.read(path))):
        mask, masked = rows["input_mask"] != 0, rows["masked_lm_weights"] != 0
        yield _instances(
            _cut(rows["input_ids"], mask),
            _cut(rows["segment_ids"], mask),
            _cut(rows["masked_lm_positions"], masked),
            _cut(rows["masked_lm_ids"], masked),
            rows["next_sentence_labels"][:, 0],
        )


LAYOUTS = {
    "hdf5": Layout("HDF5, rows padded to max_seq_length", "hdf5", write_fixed, read_fixed, 2.8),
    "hdf5-varlength": Layout("HDF5, rows of variable length (NVIDIA's)", "hdf5", write_varlength, read_varlength, 1.3),
    "hdf5-shuffled": Layout(
        "hdf5-varlength, shuffled over all shards (Random(24)), with the lists of what went where",
        "hdf5",
        write_varlength,
        read_varlength,
        1.3,
        arranged=SHUFFLED,
    ),
    "hdf5-packed": Layout(
        "HDF5, up to three sequences a row (NVIDIA's packed data), with the lists of which; eval as hdf5-varlength",
        "hdf5",
        write_varlength,
        read_packed,
        1.4,
        arranged=PACKED,
    ),
    "tfrecord": Layout(
        "TFRecord of tf.train.Example, as the reference", "tfrecord", write_tfrecord, read_tfrecord, 3.0
    ),
}


def _objects(ragged: Ragged) -> np.ndarray:
    """(N,) one array a row, for `write_direct`: a plain assignment fails where all rows are of the same length."""
    rows = np.empty(len(ragged), h5py.vlen_dtype(ragged.values.dtype))
    rows[:] = ragged.rows()
    return rows


def _placed(blocks: Blocks) -> Iterator[tuple[slice, Instances]]:
    """Each block with the rows that it takes in a file."""
    start = 0
    for block in blocks:
        yield slice(start, start + len(block)), block
        start += len(block)


def _batches(records: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(records, BLOCK)):
        yield batch


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _cut(rows: np.ndarray, used: np.ndarray) -> Ragged:
    return Ragged.of(rows[used], used.sum(1))


def _instances(ids: Ragged, segments: Ragged, positions: Ragged, labels: Ragged, random_next: np.ndarray) -> Instances:
    in_first = np.concatenate([[0], np.cumsum(segments.values == 0)])[segments.starts]
    return Instances(ids, np.diff(in_first), positions, labels, random_next)
