"""Wikipedia's packed layout: which lengths share a row, what the rows hold, and what the checks find in them."""

import json
import random
import shutil
from itertools import accumulate, pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podium.data import wikipedia
from podium.data.again import Again, Sample
from podium.data.demo import wikipedia as demo
from podium.data.job import Job
from podium.data.wikipedia import layouts, strategies
from podium.errors import BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

PARAMS = {"max_seq_length": 120, "max_predictions_per_seq": 18, "dupe_factor": 2, "eval_samples": 20, "shards": 3}
NAME = "train/part_00001_of_00003.hdf5"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """A small set in the published form."""
    folder = tmp_path_factory.mktemp("published")
    demo.make(folder)
    return folder


@pytest.fixture(scope="module")
def packed(published, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("packed")
    return folder, prepare(published, folder)


@pytest.fixture
def copied(packed, tmp_path) -> tuple[Path, dict]:
    """The same, in a folder that a test may spoil."""
    return shutil.copytree(packed[0], tmp_path / "copied"), packed[1]


def prepare(source: Path, to: Path, layout: str = "hdf5-packed", workers: int = 1, **params) -> dict:
    return wikipedia.prepare(Job(source, layout, to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
@example([0, 0, 0, 2, 2])  # the same length twice, and three times, in one row
@example([0] * 170 + [7] + [0] * 342)
@example([5])
def test_strategies_use_every_sequence_once_and_overfill_no_row(counts):
    histogram = np.array([0, *counts])
    found = strategies.solve(histogram)
    used = np.bincount(found.lengths.ravel(), np.repeat(found.samples, strategies.MOST), minlength=len(histogram))
    assert used[1:].tolist() == counts
    assert (found.lengths.sum(1) < len(histogram)).all()
    assert (np.diff(found.lengths) >= 0).all() and (found.samples > 0).all()
    assert len(np.unique(found.lengths, axis=0)) == len(found.lengths)


def test_rows_are_nearly_as_few_as_can_be():
    """Lengths as those of an encyclopedia: a quarter full rows, the others anything. Least squares come to 0.99 too."""
    draw = np.random.default_rng(0)
    lengths = np.clip(np.exp(draw.normal(5.4, 0.9, 200_000)), 8, 512).astype(int)
    found = strategies.solve(np.bincount(lengths, minlength=513))
    assert found.samples.sum() < 1.01 * max(lengths.sum() / 512, len(lengths) / 3)


def test_the_bytes_do_not_depend_on_the_workers(published, packed, tmp_path):
    assert prepare(published, tmp_path, workers=3) == packed[1]
    assert content(tmp_path) == content(packed[0])


def test_a_second_try_goes_on_with_the_files_that_are_there(published, copied):
    folder, counts = copied
    wanted, kept = content(folder), folder / "train" / "part_00000_of_00003.hdf5"
    (folder / NAME).unlink()
    (folder / "indices" / "samples_00002.lst").unlink()
    before = kept.stat().st_mtime_ns
    assert prepare(published, folder) == counts
    assert content(folder) == wanted
    assert kept.stat().st_mtime_ns == before


def test_a_packed_folder_passes_its_checks(packed):
    folder, counts = packed
    assert wikipedia.invariants(folder, "hdf5-packed", counts) == []
    assert counts["samples"] < 0.7 * counts["train_instances"]
    assert (counts["shards"], counts["eval_instances"]) == (3, 20)


def sequences(path: Path) -> list[list[tuple]]:
    """The rows of a file, cut as NVIDIA's trainer cuts them: tokens, segments, places, words and label of each."""
    found = []
    with h5py.File(path) as file:
        for row in range(len(file["input_ids"])):
            tokens = [0, *accumulate(file["packed_input_len"][row].tolist())]
            masked = [0, *accumulate(file["packed_masked_lm_len"][row].tolist())]
            found.append([])
            for number, (span, places) in enumerate(zip(pairwise(tokens), pairwise(masked), strict=True)):
                found[-1].append(
                    (
                        tuple(file["input_ids"][row][slice(*span)]),
                        tuple(file["segment_ids"][row][slice(*span)]),
                        tuple(file["masked_lm_positions"][row][slice(*places)] - span[0]),
                        tuple(file["masked_lm_ids"][row][slice(*places)]),
                        file["next_sentence_labels"][row][number],
                    )
                )
    return found


def plain(path: Path) -> list[tuple]:
    """The rows of a file of variable length."""
    names = ("input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    with h5py.File(path) as file:
        columns = [[tuple(row) for row in file[name][:]] for name in names]
        return list(zip(*columns, file["next_sentence_labels"][:], strict=True))


def test_each_sequence_is_where_its_list_says_and_as_it_is_without_packing(published, packed, tmp_path):
    prepare(published, tmp_path, "hdf5-varlength")
    rows = [row for path in sorted((tmp_path / "train").iterdir()) for row in plain(path)]
    origins = []
    for number, path in enumerate(sorted((packed[0] / "train").iterdir())):
        listed = json.loads((packed[0] / "indices" / f"samples_{number:05d}.lst").read_text())
        assert sequences(path) == [[rows[place] for place in sample] for sample in listed]
        origins += [place for sample in listed for place in sample]
    assert sorted(origins) == list(range(len(rows)))
    assert origins != sorted(origins)
    for name in ("eval/part_eval.hdf5", "parts.csv", "vocab.txt"):
        assert hash_file(packed[0] / name) == hash_file(tmp_path / name)


def test_the_table_of_strategies_says_which_lengths_are_together(packed):
    lines = [list(map(int, line.split(","))) for line in (packed[0] / "strategies.csv").read_text().splitlines()[1:]]
    found = [[len(one[0]) for one in row] for path in (packed[0] / "train").iterdir() for row in sequences(path)]
    expected = [[length for length in lengths if length] for count, *lengths in lines for _ in range(count)]
    assert sorted(found) == sorted(expected)
    assert len(lines) == packed[1]["strategies"]


def test_more_files_than_rows_are_refused(published, tmp_path):
    with pytest.raises(BadInput, match="too many shards"):
        prepare(published, tmp_path, shards=100_000)


def put(name: str, row: int, value: list[int]):
    def change(folder: Path) -> None:
        with h5py.File(folder / NAME, "r+") as file:
            file[name][row] = np.array(value, file[name].dtype.metadata["vlen"])

    return change


def swapped(folder: Path) -> None:
    path = folder / "indices" / "samples_00000.lst"
    listed = json.loads(path.read_text())
    listed[0][0] = listed[1][0]
    path.write_text(json.dumps(listed))


SPOILED = {
    "lengths that do not fit": (
        put("packed_input_len", 2, [5, 5, 5, 5]),
        "input_ids, packed_input_len, segment_ids do not fit",
    ),
    "labels that do not fit": (put("next_sentence_labels", 2, [0] * 9), "do not fit the number of their sequences"),
    "a list that repeats": (swapped, "found 2 lost or repeated"),
    "no list": (
        lambda folder: (folder / "indices" / "samples_00001.lst").unlink(),
        "samples_00001.lst: expected where",
    ),
    "another kind of list": (
        lambda folder: (folder / "indices" / "samples_00001.lst").write_text('{"a": 1}'),
        "samples_00001.lst is no list of lists",
    ),
    "not packed": (lambda folder: shutil.copy(folder / "eval/part_eval.hdf5", folder / NAME), "packed_input_len"),
    "an error page": (lambda folder: (folder / NAME).write_bytes(b"<html>"), NAME),
}


@pytest.mark.parametrize("change, expected", SPOILED.values(), ids=SPOILED)
def test_the_check_finds_what_is_wrong(copied, change, expected):
    folder, counts = copied
    change(folder)
    assert any(expected in problem for problem in wikipedia.invariants(folder, "hdf5-packed", counts))


def test_rows_with_too_much_in_them_are_found(copied):
    folder, counts = copied
    with h5py.File(folder / NAME) as file:
        per_row = np.array([len(row) for row in file["packed_input_len"][:]])
    instances = next(layouts.read_packed(folder / NAME))
    together = np.array([*per_row[:-5], per_row[-5:].sum()])
    layouts.write_packed(folder / NAME, instances, together)
    problems = wikipedia.invariants(folder, "hdf5-packed", counts)
    last = len(together) - 1
    for what in ("1 to 3 sequences", "at most 120 tokens"):
        assert f"{NAME}: expected {what} a row, found other in 1 rows, such as row {last}" in problems
    assert any(f"train: expected {counts['samples']} samples" in problem for problem in problems)


def again(source: Path, folder: Path, counts: dict) -> Again:
    sample = Sample(source, folder, "hdf5-packed", Manifest((), counts, PARAMS), random.Random(0), share=1.0)
    return wikipedia.rederive(sample)


def test_every_part_made_again_is_in_the_packed_rows(published, packed):
    assert again(published, *packed) == Again(5, [])


def test_another_word_in_a_packed_row_is_found(published, copied):
    folder, counts = copied
    with h5py.File(folder / NAME, "r+") as file:
        row = file["input_ids"][4]
        row[1] ^= 1
        file["input_ids"][4] = row
    (problem,) = again(published, folder, counts).problems
    assert problem.startswith(f"{NAME}: expected instances of part-")
