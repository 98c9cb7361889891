"""BERT's data: the three layouts, the order of a pass, parts for the processes, several sequences in a row."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from implementations.implementation import CONTAINERS, modules
from implementations.wikipedia import TOKENS, VOCABULARY, WRITERS, sequences, write_dataset, write_fixed, write_packed

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")
h5py = pytest.importorskip("h5py")

LAYOUTS = list(WRITERS)


@pytest.fixture(scope="module")
def bert():
    with modules(CONTAINERS / "bert") as loaded:
        yield loaded


@pytest.fixture
def sizes(bert):
    return bert.model.Sizes(vocab_size=VOCABULARY, max_position_embeddings=TOKENS)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def contents(rows) -> list[tuple]:
    """Of each sequence its tokens, segments, masked positions and words, and label."""
    lengths, used = rows["input_mask"].sum(1), (rows["masked_lm_positions"] > 0).sum(1)
    names = (("input_ids", lengths), ("segment_ids", lengths), ("masked_lm_positions", used), ("masked_lm_ids", used))
    parts = [[tuple(row[:n].tolist()) for row, n in zip(rows[name], many, strict=True)] for name, many in names]
    return list(zip(*parts, rows["next_sentence_labels"].tolist(), strict=True))


def of_batch(batch) -> list[tuple]:
    """The same, from a batch: what the network is told of each of its sequences."""
    width = batch.input_ids.shape[1]
    found = []
    for first, label in zip(batch.first_at.tolist(), batch.next_labels.tolist(), strict=True):
        line, column = divmod(first, width)
        owner = batch.owners[line, column].item()
        tokens = (batch.owners[line] == owner).nonzero().flatten()
        assert batch.positions[line, tokens].tolist() == list(range(len(tokens)))
        flat = line * width + tokens
        mine = torch.isin(batch.masked_at, flat)
        values = (
            batch.input_ids[line, tokens],
            batch.segments[line, tokens],
            batch.masked_at[mine] - first,
            batch.masked_ids[mine],
        )
        found.append((*(tuple(value.tolist()) for value in values), label))
    assert (batch.input_ids[batch.owners == 0] == 0).all()
    return found


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_sequences(bert, sizes, rng, tmp_path, layout, pack):
    rows = sequences(rng, 40)
    WRITERS[layout](tmp_path / "file.hdf5", rows)
    read = bert.data.read(tmp_path / "file.hdf5", sizes)
    batches = bert.loader.evaluation_batches(read, 16, 0, 1, TOKENS, pack)
    assert [sequence for batch in batches for sequence in of_batch(batch)] == contents(rows)
    lines = sum(len(batch.input_ids) for batch in batches)
    assert lines < 40 if pack or layout == "packed" else lines == 40
    assert all(batch.owners.max() <= 3 for batch in batches)


def test_packing_puts_the_longest_first_where_they_fit(bert):
    places = bert.loader.fit([5, 9, 3, 4, 1, 1, 1], [1] * 7, 12)
    assert places == [(1, 0, 0), (0, 0, 0), (0, 9, 1), (1, 5, 1), (1, 9, 2), (2, 0, 0), (2, 1, 1)]
    assert bert.loader.fit([6, 6, 5], [2, 1, 2], 12) == [(0, 0, 0), (0, 6, 2), (1, 0, 0)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pass_has_every_sequence_once_in_a_new_order(bert, sizes, rng, tmp_path, layout):
    files = bert.data.train_files(write_dataset(tmp_path, rng, layout))

    def order(seed, part, count):
        parts = bert.loader.training_parts(files, sizes, bert.loader.Cut(part), seed)
        batches = (bert.loader.collate(rows, TOKENS, False) for rows in islice(parts, count))
        return [sequence[0][:2] for batch in batches for sequence in of_batch(batch)]

    everything = {(file, row) for file in range(5) for row in range(7)}
    first, second = (set(order(3, 35, 2)[part : part + 35]) for part in (0, 35))  # 35 sequences a pass
    assert first == second == everything
    assert order(3, 35, 2)[:35] != order(3, 35, 2)[35:]
    assert order(3, 5, 9) == order(3, 5, 9) != order(4, 5, 9)
    mixed = order(3, 28, 1)
    assert all(len({file for file, _ in mixed[part : part + 14]}) > 1 for part in (0, 14))  # four files are mixed
    left_for_last = [everything - set(order(seed, 28, 1)) for seed in range(8)]
    assert len({file for left in left_for_last for file, _ in left}) > 1
    pass_of_eight = order(3, 8, 4)
    assert len(set(pass_of_eight)) == 32  # the last 3 of a pass are dropped


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pack", [False, True])
def test_processes_and_workers_share_the_parts_of_one_order(bert, sizes, rng, tmp_path, layout, pack):
    files = bert.data.train_files(write_dataset(tmp_path, rng, layout))

    def parts(rank, size, count, workers=0):
        cut = bert.loader.Cut(part=4, parts=4, rank=rank, size=size)
        loader = bert.loader.loader(bert.loader.TrainParts(files, sizes, cut, 3, pack), workers, torch.device("cpu"))
        return [of_batch(batch) for batch in islice(loader, count)]

    alone = parts(0, 1, 16)
    assert all(len(part) == 4 for part in alone)
    for batch in range(2):  # a global batch of 4 parts has no sequence twice
        assert len({sequence for part in alone[4 * batch : 4 * batch + 4] for sequence in part}) == 16
    assert [part for pair in zip(parts(0, 2, 8), parts(1, 2, 8), strict=True) for part in pair] == alone
    assert parts(1, 2, 8, workers=2) == parts(1, 2, 8)


def test_a_packed_row_that_is_too_much_waits_for_the_next_part(bert):
    rows = [bert.loader.Row(None, index, count) for index, count in enumerate([2, 2, 2, 1, 3, 1, 1, 3])]
    parts = [[row.index for row in part] for part in bert.loader.cut_up(rows, 3)]
    assert parts == [[0, 3], [1, 5], [2, 6], [4], [7]]


@pytest.mark.parametrize("processes", [1, 4, 8])
def test_every_sequence_is_evaluated_once(bert, sizes, rng, tmp_path, processes):
    rows = sequences(rng, 6)
    write_packed(tmp_path / "file.hdf5", rows)
    read = bert.data.read(tmp_path / "file.hdf5", sizes)
    shares = [bert.loader.evaluation_batches(read, 2, rank, processes, TOKENS, True) for rank in range(processes)]
    found = [sequence for share in shares for batch in share for sequence in of_batch(batch)]
    assert sorted(found) == sorted(contents(rows))


def test_the_longest_batch_fills_every_row_and_has_no_tensor_twice(bert, sizes):
    batch = bert.loader.longest(3, sizes)
    assert batch.input_ids.shape == (3, TOKENS) and (batch.owners == 1).all()
    assert len({tensor.data_ptr() for tensor in batch}) == len(batch)  # or it would be compiled twice
    assert len(batch.masked_at) == len(batch.masked_ids) == 3 and batch.first_at.tolist() == [0, TOKENS, 2 * TOKENS]


# Bad input


def spoil(path, name, place=(0, 1), value=None):
    """Change one value of a dataset, or remove all of it."""
    with h5py.File(path, "a") as file:
        if value is None:
            del file[name]
        else:
            values = file[name][:]
            values[place] = value
            del file[name]
            file[name] = values


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "file.hdf5: expected a file of sequences, found nothing"),
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), "file.hdf5: expected HDF5"),
        (lambda path: path.write_bytes(b"record"), "file.hdf5: expected HDF5"),
        (lambda path: spoil(path, "segment_ids"), "segment_ids"),
        (lambda path: spoil(path, "input_mask"), "rows of one length, (7, 12), without input_mask"),
        (lambda path: spoil(path, "input_mask", (0, 1), 0), "input_mask with a gap"),
        (lambda path: spoil(path, "input_ids", value=VOCABULARY), "expected input_ids from 0 to 29, found 1 to 30"),
        (lambda path: spoil(path, "masked_lm_ids", (0, 0), -1), "expected masked_lm_ids from 0 to 29, found -1"),
        (lambda path: spoil(path, "masked_lm_positions", (0, 0), TOKENS), "masked_lm_positions in their sequence"),
        (lambda path: spoil(path, "masked_lm_positions", (0, 0), -1), "masked_lm_positions in their sequence"),
        (lambda path: spoil(path, "next_sentence_labels", 0, 2), "expected next_sentence_labels from 0 to 1"),
        (lambda path: spoil(path, "masked_lm_positions", ..., 0), "expected masked_lm_ids, found none"),
    ],
)
def test_a_wrong_file_is_named_with_what_was_expected(bert, sizes, rng, tmp_path, capsys, change, said):
    path = tmp_path / "file.hdf5"
    write_fixed(path, sequences(rng, 7))
    change(path)
    with pytest.raises(SystemExit) as end:
        bert.data.read(path, sizes)
    assert end.value.code == 2 and said in capsys.readouterr().err


def test_packed_sequences_that_do_not_fill_their_rows_are_refused(bert, sizes, rng, tmp_path, capsys):
    write_packed(tmp_path / "file.hdf5", sequences(rng, 7))
    with h5py.File(tmp_path / "file.hdf5", "a") as file:
        file["packed_input_len"][0] = file["packed_input_len"][0] - 1
    with pytest.raises(SystemExit):
        bert.data.read(tmp_path / "file.hdf5", sizes)
    assert "packed sequences that do not fill their rows" in capsys.readouterr().err


def test_longer_sequences_than_the_network_has_positions_are_refused(bert, sizes, rng, tmp_path, capsys):
    write_fixed(tmp_path / "file.hdf5", sequences(rng, 7))
    small = bert.model.Sizes(vocab_size=VOCABULARY, max_position_embeddings=8)
    with pytest.raises(SystemExit):
        bert.data.read(tmp_path / "file.hdf5", small)
    assert "expected at most MAX_POSITION_EMBEDDINGS=8" in capsys.readouterr().err


@pytest.mark.parametrize(("part", "parts", "said"), [(36, 1, "GLOBAL_BATCH_SIZE=36: expected no more"), (2, 1, "3 se")])
def test_parts_that_cannot_be_filled_are_refused(bert, sizes, rng, tmp_path, capsys, part, parts, said):
    rows = sequences(rng, 7)
    rows["input_mask"] = (np.arange(TOKENS) < 4).astype(np.int8) * np.ones((7, 1), np.int8)
    write_packed(tmp_path / "train" / "part_00000_of_00001.hdf5", rows)
    files = bert.data.train_files(tmp_path)
    with pytest.raises(SystemExit) as end:
        next(bert.loader.training_parts(files, sizes, bert.loader.Cut(part, parts), 1))
    assert end.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keep", "said"), [([], "part_*_of_*.hdf5, found none"), ([0, 1, 3], "expected 5 files, found 3; see part_00002")]
)
def test_missing_training_files_are_named(bert, rng, tmp_path, capsys, keep, said):
    folder = write_dataset(tmp_path, rng)
    for number in set(range(5)) - set(keep):
        (folder / "train" / f"part_{number:05d}_of_00005.hdf5").unlink()
    with pytest.raises(SystemExit) as end:
        bert.data.train_files(folder)
    assert end.value.code == 2 and said in capsys.readouterr().err
