"""GovReport: parquet to the .npy of NVIDIA's images, what is refused, and what the checks find.

The files are compared with what NumPy and pickle make of the same dictionaries here, in the words of NumPy 1.
"""

import builtins
import hashlib
import io
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from podium.data import govreport
from podium.data.again import Sample
from podium.data.formats import objects
from podium.data.govreport import samples
from podium.data.job import Job
from podium.data.prepare import prepare as whole
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file
from podium.manifest import Manifest

TRAIN, VALIDATION = "train-00000-of-00001.parquet", "validation-00000-of-00001.parquet"
COUNTS = {"train_samples": 9, "eval_samples": 3}
ROW = (list(range(5)), [-100, -100, 7, 8, -100])


def drawn(count: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Samples of many lengths, tokens and labels."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        ids = [draw.randrange(32_000) for _ in range(draw.choice([1, 31, 32, 999, 1000, 1001, 8192]))]
        found.append((ids, [token if draw.random() < 0.2 else -100 for token in ids]))
    return found


def put(path: Path, rows, kind=None, names=("input_ids", "labels"), **more) -> None:
    kind = arrow.list_(arrow.int64()) if kind is None else kind
    columns = {name: arrow.array([row[place] for row in rows], kind) for place, name in enumerate(names)}
    parquet.write_table(arrow.table(columns), path, row_group_size=4, **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("govreport")
    put(folder / TRAIN, drawn(9, 1))
    put(folder / VALIDATION, drawn(3, 2))
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture
def prepared(made, tmp_path) -> tuple[Path, dict]:
    return tmp_path / "to", run(made, tmp_path / "to")


def run(source: Path, to: Path, workers: int = 1, **params) -> dict:
    to.mkdir(exist_ok=True)
    return govreport.prepare(Job(source, "npy", to, COUNTS | params, workers))


def saved(rows, dtype: str = "<i8") -> bytes:
    """What NumPy 1's `save` writes: here NumPy's own pickling of it, with the older name of its module."""
    each = [
        {"input_ids": np.array(ids, dtype), "loss_mask": [int(one != -100) for one in labels], "seq_start_id": [0]}
        for ids, labels in rows
    ]
    return numpy_saves(each)


def numpy_saves(each: list[dict]) -> bytes:
    array = np.empty(len(each), object)
    array[:] = each
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (len(each),)})
    pickle.dump(array, file, protocol=3)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n", 1)


@pytest.mark.parametrize("kind, dtype", [(arrow.int64(), "<i8"), (arrow.int32(), "<i4")])
def test_the_bytes_are_those_of_numpy(tmp_path, kind, dtype):
    put(tmp_path / TRAIN, drawn(9, 1), arrow.list_(kind))
    put(tmp_path / VALIDATION, drawn(3, 2), arrow.large_list(kind))
    counts = run(tmp_path, tmp_path / "to")
    files = [saved(drawn(9, 1), dtype), saved(drawn(3, 2), dtype)]
    assert [(tmp_path / "to" / f"{split}.npy").read_bytes() for split in ("train", "validation")] == files
    git_attributes = "d85de041c769ee501dc7021ef3fb3201"
    every = sorted([*(hashlib.md5(file).hexdigest() for file in files), git_attributes])
    assert counts == COUNTS | {"nvidia_md5": hashlib.md5("".join(every).encode()).hexdigest()}
    assert govreport.invariants(tmp_path / "to", "npy", counts) == []


@given(
    st.lists(st.tuples(st.integers(1, 2100), st.booleans()), min_size=1, max_size=5),
    st.sampled_from(["<i8", "<i4"]),
)
def test_dictionaries_of_any_size_are_pickled_as_pickle_does(tmp_path_factory, sizes, dtype):
    path = tmp_path_factory.mktemp("objects") / "some.npy"
    rows = [([number] * size, [number if kept else -100] * size) for number, (size, kept) in enumerate(sizes)]
    of = [
        {
            "input_ids": np.array(ids, dtype),
            "loss_mask": bytes(label != -100 for label in labels),
            "seq_start_id": b"\0",
        }
        for ids, labels in rows
    ]
    objects.write(path, len(of), of)
    assert path.read_bytes() == saved(rows, dtype)
    assert [row["input_ids"].tolist() for row in objects.read(path)] == [ids for ids, _ in rows]


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2001])
def test_any_number_of_dictionaries_is_pickled_as_pickle_does(tmp_path, count):
    of = [{"input_ids": np.array([7]), "loss_mask": b"\1", "seq_start_id": b"\0"}] * count
    objects.write(tmp_path / "some.npy", count, of)
    assert (tmp_path / "some.npy").read_bytes() == saved([([7], [7])] * count)


@pytest.mark.parametrize("rows", [0, 2])
def test_fewer_or_more_dictionaries_than_said_leave_no_file(tmp_path, rows):
    with pytest.raises(ValueError, match="rows, not 1"):
        objects.write(tmp_path / "some.npy", 1, [{"a": np.array([1]), "b": b"\0"}] * rows)
    assert not list(tmp_path.iterdir())


def test_the_bytes_do_not_depend_on_the_workers(made, prepared, tmp_path):
    assert run(made, tmp_path / "two", workers=2) == prepared[1]
    for split in ("train", "validation"):
        assert hash_file(tmp_path / "two" / f"{split}.npy") == hash_file(prepared[0] / f"{split}.npy")


def test_a_subset_has_the_first_samples(made, tmp_path):
    counts = whole("govreport", made, "npy", tmp_path / "to", {"take": 2}, 1).counts
    assert (counts["train_samples"], counts["eval_samples"], counts["subset"]) == (2, 2, True)
    assert (tmp_path / "to" / "train.npy").read_bytes() == saved(drawn(9, 1)[:2])


def test_what_is_done_stays_done(made, prepared, monkeypatch):
    monkeypatch.setattr(objects, "write", None)
    assert run(made, prepared[0]) == prepared[1]


def changed(name: str, change):
    return lambda folder: (folder / name).write_bytes(change(bytearray((folder / name).read_bytes())))


def with_rows(*rows, **more):
    return lambda folder: put(folder / TRAIN, [*drawn(8, 1), *rows], **more)


BAD = {
    "a file is missing": (lambda folder: (folder / VALIDATION).unlink(), f"no {VALIDATION}"),
    "a file is cut": (changed(TRAIN, lambda data: data[:-100]), "magic bytes not found"),
    "a login page": (changed(TRAIN, lambda data: b"<html>" * 9), "magic bytes not found"),
    "nothing": (changed(TRAIN, lambda data: b""), "0 bytes"),
    "a column is missing": (with_rows(ROW, names=("input_ids",)), "input_ids"),
    "text": (with_rows(ROW, kind=arrow.list_(arrow.float64())), "list<element: double>"),
    "short numbers": (lambda folder: put(folder / TRAIN, [([1], [1])] * 9, arrow.list_(arrow.int16())), "int16"),
    "no lists": (lambda folder: put(folder / TRAIN, [(1, 1)] * 9, arrow.int64()), "int64"),
    "a gap": (with_rows(([1, None], [1, 2])), "nothing in some"),
    "no list in a place": (with_rows((None, [1])), "nothing in some"),
    "too long": (with_rows(([1] * 8193, [1] * 8193)), "8193 tokens, where 1 to 8192 are expected"),
    "no tokens": (with_rows(([], [])), "0 tokens"),
    "labels of another length": (with_rows(([1, 2], [1])), "2 tokens and 1 labels"),
    "another tokenizer": (with_rows(([1, 32_000], [1, 2])), "tokens from 1 to 32000"),
    "a negative token": (with_rows(([1, -1], [1, 2])), "tokens from -1 to 1"),
    "too few": (lambda folder: put(folder / TRAIN, drawn(8, 1)), "8"),
    "too many": (lambda folder: put(folder / VALIDATION, drawn(4, 1)), "4"),
}


@pytest.mark.parametrize("spoil, found", BAD.values(), ids=BAD)
def test_a_bad_source_is_refused(spoiled, tmp_path, spoil, found):
    spoil(spoiled)
    with pytest.raises(BadInput) as error:
        run(spoiled, tmp_path / "to")
    assert found in error.value.found
    assert error.value.next == "podium fetch govreport"


def test_a_changed_page_is_noticed(spoiled, tmp_path):
    put(spoiled / TRAIN, drawn(9, 1), compression=None, use_dictionary=False, write_page_checksum=True)
    data = bytearray((spoiled / TRAIN).read_bytes())
    data[len(data) // 2] ^= 1
    (spoiled / TRAIN).write_bytes(data)
    with pytest.raises(BadInput, match="cannot be read"):
        run(spoiled, tmp_path / "to")
    assert not (tmp_path / "to" / "train.npy").exists()


def test_the_published_numbers_are_asked_for(made, tmp_path):
    with pytest.raises(BadInput, match="is not the published set") as error:
        govreport.prepare(Job(made, "npy", tmp_path))
    assert (error.value.expected, error.value.found) == ("3901 samples", "9")


@pytest.mark.parametrize("value", [0, "3", True])
def test_a_bad_parameter_is_refused(made, tmp_path, value):
    with pytest.raises(BadInput, match="parameter eval_samples"):
        run(made, tmp_path, eval_samples=value)


def test_without_the_library_the_command_that_installs_it_is_named(made, tmp_path, monkeypatch):
    every = builtins.__import__

    def without(name, *args):
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError("No module named 'pyarrow'")
        return every(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadEnvironment, match="library of its own") as error:
        run(made, tmp_path)
    assert error.value.next == "make .venv/pins-parquet"


def rewritten(change):
    """Spoil the training samples, with all else as it was."""

    def spoil(folder: Path) -> None:
        rows = objects.read(folder / "train.npy")
        change(rows)
        (folder / "train.npy").write_bytes(numpy_saves(rows))

    return spoil


def pickled(content) -> object:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|O", "fortran_order": False, "shape": (9,)})
    return lambda folder: (folder / "train.npy").write_bytes(head.getvalue() + pickle.dumps(content))


WRONG = {
    "no file": (lambda folder: (folder / "train.npy").unlink(), "expected 9 pickled samples, found FileNotFoundError"),
    "a cut file": (changed("train.npy", lambda data: data[:-50]), "expected 9 pickled samples"),
    "an array of numbers": (lambda folder: np.save(folder / "train.npy", np.zeros(9)), "expected a list of objects"),
    "something that runs": (pickled(Path("/")), "expected arrays, found pathlib."),
    "something else": (pickled([1, 2]), "expected 9 objects, found list"),
    "a sample less": (lambda folder: shutil.copy(folder / "validation.npy", folder / "train.npy"), "found 3"),
    "other keys": (rewritten(lambda rows: rows[0].pop("loss_mask")), "sample 1: expected input_ids, loss_mask"),
    "another type": (
        rewritten(lambda rows: rows[4].update(input_ids=np.zeros(3))),
        "sample 5: expected tokens as int32",
    ),
    "a longer mask": (rewritten(lambda rows: rows[2]["loss_mask"].append(1)), "sample 3: "),
    "a mask of others": (
        rewritten(lambda rows: rows[2]["loss_mask"].__setitem__(0, 2)),
        "sample 3: expected a mask of 0",
    ),
    "a token too high": (rewritten(lambda rows: rows[8]["input_ids"].__setitem__(0, 99_999)), "sample 9: tokens from"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(prepared, spoil, expected):
    folder, counts = prepared
    spoil(folder)
    (problem,) = govreport.invariants(folder, "npy", counts)
    assert problem.startswith("train.npy: ")
    assert expected in problem


def test_samples_made_again_are_those_that_are_there(made, prepared):
    folder, counts = prepared
    every = Sample(made, folder, "npy", Manifest((), counts, {}), random.Random(0), 1.0)
    found = govreport.rederive(every)
    assert (found.items, found.problems) == (12, [])
    rewritten(lambda rows: rows[2]["loss_mask"].__setitem__(0, 1 - rows[2]["loss_mask"][0]))(folder)
    assert govreport.rederive(every).problems == [f"train.npy: expected sample 3 of {TRAIN}, found another"]


def test_a_sample_may_have_as_many_tokens_as_the_benchmark():
    assert samples.wrong(np.ones(8192, int), np.ones(8192)) == ""
