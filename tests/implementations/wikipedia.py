"""Small sets of sequences in the layouts that BERT reads, written from the layouts' descriptions."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

VOCABULARY, TOKENS, MASKED = 30, 12, 3
Rows = dict[str, np.ndarray]


def sequences(random: np.random.Generator, count: int) -> Rows:
    """`count` sequences as the preparation stores them, padded; the words are random, the masked ones are 1, 2 or 3."""
    lengths, used = random.integers(4, TOKENS + 1, count), random.integers(1, MASKED + 1, count)
    token, slot = np.arange(TOKENS), np.arange(MASKED)
    mask = token < lengths[:, None]
    positions = np.sort([1 + random.permutation(3) for _ in range(count)])
    return {
        "input_ids": (random.integers(1, VOCABULARY, (count, TOKENS)) * mask).astype(np.int16),
        "input_mask": mask.astype(np.int8),
        "segment_ids": ((token >= 3) & mask).astype(np.int8),
        "masked_lm_positions": (positions * (slot < used[:, None])).astype(np.int16),
        "masked_lm_ids": (random.integers(1, 4, (count, MASKED)) * (slot < used[:, None])).astype(np.int16),
        "next_sentence_labels": random.integers(0, 2, count).astype(np.int8),
    }


def write_fixed(path: Path, rows: Rows) -> None:
    """The layout `hdf5`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, values in rows.items():
            file[name] = values


def write_variable(path: Path, rows: Rows) -> None:
    """The layout `hdf5-varlength`."""
    lengths, used = rows["input_mask"].sum(1), (rows["masked_lm_positions"] > 0).sum(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, many in (("input_ids", lengths), ("segment_ids", lengths)):
            _write_ragged(file, name, [row[:n] for row, n in zip(rows[name], many, strict=True)])
        for name in ("masked_lm_positions", "masked_lm_ids"):
            _write_ragged(file, name, [row[:n] for row, n in zip(rows[name], used, strict=True)])
        file["next_sentence_labels"] = rows["next_sentence_labels"]


def write_packed(path: Path, rows: Rows, most: int = 3) -> None:
    """The layout `hdf5-packed`: neighbours in one row while they fit, `most` at most."""
    width = rows["input_ids"].shape[1]
    lengths, used = rows["input_mask"].sum(1), (rows["masked_lm_positions"] > 0).sum(1)
    packed: list[list[int]] = []
    for number, length in enumerate(lengths):
        if packed and len(packed[-1]) < most and lengths[packed[-1]].sum() + length <= width:
            packed[-1].append(number)
        else:
            packed.append([number])
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name in ("input_ids", "segment_ids"):
            _write_ragged(file, name, [np.concatenate([rows[name][i, : lengths[i]] for i in row]) for row in packed])
        begins = [np.cumsum([0, *lengths[row[:-1]]]) for row in packed]
        positions = [
            np.concatenate([rows["masked_lm_positions"][i, : used[i]] + b for i, b in zip(row, begin, strict=True)])
            for row, begin in zip(packed, begins, strict=True)
        ]
        _write_ragged(file, "masked_lm_positions", positions)
        ids = [np.concatenate([rows["masked_lm_ids"][i, : used[i]] for i in row]) for row in packed]
        _write_ragged(file, "masked_lm_ids", ids)
        _write_ragged(file, "packed_input_len", [lengths[row] for row in packed])
        _write_ragged(file, "packed_masked_lm_len", [used[row] for row in packed])
        _write_ragged(file, "next_sentence_labels", [rows["next_sentence_labels"][row] for row in packed])


WRITERS = {"fixed": write_fixed, "variable": write_variable, "packed": write_packed}


def write_dataset(folder: Path, random: np.random.Generator, layout: str = "fixed", files: int = 5) -> Path:
    """Training files of 7 sequences each, whose first two words are their file and number, and 6 to evaluate."""
    for number in range(files):
        rows = sequences(random, 7)
        rows["input_ids"][:, 0] = number
        rows["input_ids"][:, 1] = np.arange(7)
        WRITERS[layout](folder / "train" / f"part_{number:05d}_of_{files:05d}.hdf5", rows)
    WRITERS[layout](folder / "eval" / "part_eval.hdf5", sequences(random, 6))
    (folder / "vocab.txt").write_text("".join(f"word{number}\n" for number in range(VOCABULARY)))
    return folder


def _write_ragged(file: h5py.File, name: str, rows: list[np.ndarray]) -> None:
    kind = np.int8 if name in ("segment_ids", "next_sentence_labels") else np.int16
    dataset = file.create_dataset(name, (len(rows),), h5py.vlen_dtype(np.dtype(kind)))
    for number, row in enumerate(rows):
        dataset[number] = row.astype(kind)
