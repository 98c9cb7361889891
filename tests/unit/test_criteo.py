"""Criteo: from arrays, column by column, to HugeCTR's rows; what is refused, and what the checks find."""

import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from podium import config as configuration
from podium.data import criteo
from podium.data.again import Again, Sample
from podium.data.criteo import days, rows
from podium.data.job import Job
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

SAMPLES = [5 + day for day in range(days.DAYS)]  # of each day
PARAMS = {"eval_samples": 20}


def arrays(day: int, count: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    draw = np.random.default_rng(day)
    ids = {str(n): draw.integers(0, 1 << 30, (count, width), np.int32) for n, width in enumerate(days.IDS)}
    return draw.integers(0, 2, count, np.int32), draw.random((count, days.DENSE), np.float32), ids


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("criteo")
    for day, count in enumerate(SAMPLES):
        labels, dense, ids = arrays(day, count)
        np.save(folder / f"day_{day}_labels.npy", labels)
        np.save(folder / f"day_{day}_dense.npy", dense)
        np.savez(folder / f"day_{day}_sparse_multi_hot.npz", **ids)
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture
def prepared(made, tmp_path) -> tuple[Path, dict]:
    return tmp_path / "to", prepare(made, tmp_path / "to")


def prepare(made: Path, to: Path, workers: int = 1, **params) -> dict:
    to.mkdir(exist_ok=True)
    return criteo.prepare(Job(made, "hugectr", to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


def plain(first: int, after: int, skipped: int = 0, most: int | None = None) -> bytes:
    """The rows of some days, number by number."""
    found = b""
    for day in range(first, after):
        labels, dense, ids = arrays(day, SAMPLES[day])
        for row in range(SAMPLES[day])[skipped:most]:
            found += labels[row].tobytes() + dense[row].tobytes() + b"".join(ids[name][row].tobytes() for name in ids)
    return found


def test_rows_have_label_numbers_and_ids_of_one_sample(prepared):
    folder, counts = prepared
    assert counts == {"train_samples": sum(SAMPLES[:-1]), "eval_samples": 20, "test_samples": SAMPLES[-1] - 20}
    assert (folder / "train_data.bin").read_bytes() == plain(0, 23)
    assert (folder / "val_data.bin").read_bytes() == plain(23, 24, most=20)
    assert (folder / "test_data.bin").read_bytes() == plain(23, 24, skipped=20)
    assert criteo.invariants(folder, "hugectr", counts) == []
    assert rows.BYTES == 912


@pytest.mark.parametrize("block", [1, 4])
def test_the_bytes_depend_neither_on_the_workers_nor_on_the_block(made, prepared, tmp_path, monkeypatch, block):
    monkeypatch.setattr(rows, "BLOCK", block)
    assert prepare(made, tmp_path / "blocks") == prepared[1]
    assert prepare(made, tmp_path / "three", workers=3) == prepared[1]
    assert content(tmp_path / "three") == content(tmp_path / "blocks") == content(prepared[0])


def test_days_that_are_done_are_not_written_again(made, prepared, tmp_path, monkeypatch):
    written = []
    write = rows.write

    def stop_after_ten(part: rows.Part, to: Path) -> None:
        if len(written) == 10:
            raise KeyboardInterrupt
        written.append(part)
        write(part, to)

    monkeypatch.setattr(rows, "write", stop_after_ten)
    with pytest.raises(KeyboardInterrupt):
        prepare(made, tmp_path / "again")
    monkeypatch.undo()
    with (tmp_path / "again" / "train_data.bin").open("ab") as file:
        file.write(bytes(1_000_000))  # what was half written
    assert prepare(made, tmp_path / "again") == prepared[1]
    assert content(tmp_path / "again") == content(prepared[0])


def test_take_takes_the_first_samples_of_each_day(made, tmp_path):
    counts = criteo.prepare(Job(made, "hugectr", tmp_path, {"take": 4}))
    assert counts == {"train_samples": 92, "eval_samples": 2, "test_samples": 2}
    assert criteo.invariants(tmp_path, "hugectr", counts) == []
    assert (tmp_path / "train_data.bin").read_bytes()[: 4 * 912] == plain(0, 1, most=4)


def replaced(name: str, array: np.ndarray):
    return lambda folder: np.save(folder / name, array)


def repacked(change, day: int = 3):
    def spoil(folder: Path) -> None:
        np.savez(folder / f"day_{day}_sparse_multi_hot.npz", **change(arrays(day, SAMPLES[day])[2]))

    return spoil


def flipped(name: str, place: int):
    def spoil(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[place] ^= 1
        (folder / name).write_bytes(data)

    return spoil


IDS = "day_3_sparse_multi_hot.npz"
BAD = {
    "days are missing": (lambda folder: (folder / IDS).unlink(), f"no {IDS}"),
    "fewer labels": (replaced("day_3_labels.npy", np.zeros(7, np.int32)), "8 rows of 13 columns"),
    "labels of another kind": (replaced("day_3_labels.npy", np.zeros(8, np.int64)), "1 columns of <i8"),
    "numbers of another kind": (replaced("day_3_dense.npy", np.zeros((8, 13))), "13 columns of <f8"),
    "one number more": (replaced("day_3_dense.npy", np.zeros((8, 14), np.float32)), "14 columns of <f4"),
    "column by column": (replaced("day_3_dense.npy", np.zeros((13, 8), np.float32).T), "an array column by column"),
    "a feature is missing": (repacked(lambda ids: {n: ids[n] for n in ids if n != "7"}), "7.npy"),
    "features in another order": (repacked(lambda ids: ids | {"0": ids["1"], "1": ids["0"]}), "2 columns of <i4"),
    "an error page": (lambda folder: (folder / IDS).write_bytes(b"<html>"), "not a zip file"),
    "an error page as labels": (lambda folder: (folder / "day_3_labels.npy").write_bytes(b"<html>404</html>"), "magic"),
    "numbers are cut": (
        lambda f: (f / "day_3_dense.npy").write_bytes((f / "day_3_dense.npy").read_bytes()[:-4]),
        "reshape",
    ),
    "an id is changed": (flipped(IDS, 400), "CRC"),
}


@pytest.mark.parametrize("spoil, found", BAD.values(), ids=BAD)
def test_a_bad_source_is_refused(spoiled, tmp_path, spoil, found):
    spoil(spoiled)
    with pytest.raises(BadInput, match="day_3|source") as error:
        prepare(spoiled, tmp_path / "to")
    assert found in error.value.found


def test_a_zip_is_held_to_its_checksums(spoiled, tmp_path):
    with zipfile.ZipFile(spoiled / IDS) as archive:
        info = archive.getinfo("20.npy")
    flipped(IDS, info.header_offset + 300)(spoiled)
    with pytest.raises(BadInput, match="day_3_sparse_multi_hot.npz/20.npy"):
        prepare(spoiled, tmp_path / "to")


@pytest.mark.parametrize("value", [0, 29, "20", True])
def test_a_bad_number_of_evaluated_samples_is_refused(made, tmp_path, value):
    with pytest.raises(BadInput, match="eval_samples"):
        prepare(made, tmp_path / "to", eval_samples=value)


def test_a_disk_that_is_too_small_is_noticed_first(made, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(made, tmp_path / "to")


def put(name: str, row: int, column: int, value: float, kind: str):
    def spoil(folder: Path) -> None:
        np.memmap(folder / name, kind, "r+").reshape(-1, 228)[row, column] = value

    return spoil


WRONG = {
    "a label": (
        put("train_data.bin", 2, 0, 7, "<i4"),
        "train_data.bin: expected label 0 or 1, found others in 1 rows, such as row 2",
    ),
    "a number": (put("val_data.bin", 3, 5, np.nan, "<f4"), "val_data.bin: expected 13 finite numbers"),
    "an id": (put("test_data.bin", 1, 227, -1, "<i4"), "test_data.bin: expected ids from 0"),
    "a cut file": (lambda folder: (folder / "val_data.bin").write_bytes(b"0" * 911), "found 911 bytes"),
    "no file": (lambda folder: (folder / "test_data.bin").unlink(), "test_data.bin: expected 8 rows"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(prepared, spoil, expected):
    folder, counts = prepared
    spoil(folder)
    assert any(expected in problem for problem in criteo.invariants(folder, "hugectr", counts))


def test_the_whole_set_is_held_to_its_published_md5(prepared, monkeypatch):
    folder, counts = prepared
    facts = {"train_samples": counts["train_samples"], "eval_samples": 20}
    facts["hugectr_md5"] = {
        f"{name}_data.bin": hash_file(folder / f"{name}_data.bin", "md5") for name in ("train", "val")
    }
    facts["hugectr_md5"]["test_data.bin"] = "another"
    monkeypatch.setattr(configuration, "catalog", lambda name: {"published": facts})
    (problem,) = criteo.invariants(folder, "hugectr", counts)
    assert problem.startswith("test_data.bin: expected the published md5 another, found ")


def again(made: Path, folder: Path, counts: dict, **params) -> Again:
    return criteo.rederive(Sample(made, folder, "hugectr", Manifest((), counts, PARAMS | params), random.Random(0)))


def test_rows_made_again_are_those_that_were_written(made, prepared, tmp_path):
    assert again(made, *prepared) == Again(sum(SAMPLES), [])
    put("val_data.bin", 3, 100, 1, "<i4")(prepared[0])
    assert again(made, *prepared).problems == ["val_data.bin: expected sample 3 of day 23 in row 3, found another"]
