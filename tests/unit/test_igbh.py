"""IGBH: pairs into a compressed graph, float16 and seeds; what is refused, and what the checks find."""

import hashlib
import io
import pickle
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from podium.data import igbh
from podium.data.again import Again, Sample
from podium.data.formats import pt
from podium.data.igbh import compress, seeds, source
from podium.data.job import Job
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

NODES = {"paper": 60, "author": 40, "institute": 9, "fos": 7, "journal": 5, "conference": 4}
EDGES = {"paper__cites__paper": 300, "paper__written_by__author": 150, "author__affiliated_to__institute": 50}
EDGES |= {"paper__topic__fos": 120, "paper__published__journal": 30, "paper__venue__conference": 20}
PARAMS = {"labelled": 50}
BASE = "full/processed"
WRITTEN = "paper__written_by__author"


def pairs(name: str) -> np.ndarray:
    """Drawn edges, of which some are there twice, and of citations some are of a paper to itself."""
    first, _, second = name.split("__")
    draw = np.random.default_rng(len(name))
    return draw.integers(0, (NODES[first], NODES[second] - 1), (EDGES[name], 2))  # the last node has no edge


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("igbh")
    draw = np.random.default_rng(0)
    for kind, count in NODES.items():
        (folder / BASE / kind).mkdir(parents=True)
        rows = draw.standard_normal((count, 1024)).astype(np.float32)
        rows[0, :3] = 1e6, -1e6, 1e-7  # more and less than float16 holds
        path = folder / BASE / kind / "node_feat.npy"
        rows.tofile(path) if kind in ("paper", "author") else np.save(path, rows)
    for name in EDGES:
        (folder / BASE / name).mkdir()
        np.save(folder / BASE / name / "edge_index.npy", pairs(name))
    for name in source.LABELS:
        np.arange(60, dtype=np.float32).tofile(folder / BASE / "paper" / name)
    return folder


@pytest.fixture
def spoiled(made, tmp_path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(made, tmp_path / "source")


@pytest.fixture(scope="module")
def ready(made, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("ready")
    return folder, prepare(made, folder)


@pytest.fixture
def prepared(ready, tmp_path) -> tuple[Path, dict]:
    """A copy of what was prepared that a test may spoil."""
    return shutil.copytree(ready[0], tmp_path / "to"), ready[1]


def prepare(made: Path, to: Path, workers: int = 1, **params) -> dict:
    to.mkdir(exist_ok=True)
    return igbh.prepare(Job(made, "csc", to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


def loaded(path: Path) -> np.ndarray:
    """A tensor by its pickle, as torch.load takes it apart."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            known = {"torch LongStorage": "<i8", "torch HalfStorage": "<f2", "collections OrderedDict": dict}
            return {"torch._utils _rebuild_tensor_v2": rebuilt, **known}[f"{module} {name}"]

        def persistent_load(self, found):
            kind, dtype, key, place, count = found
            assert (kind, place) == ("storage", "cpu")
            values = np.frombuffer(archive.read(f"archive/data/{key}"), dtype)
            assert len(values) == count
            return values

    def rebuilt(values, start, shape, stride, grad, hooks):
        assert (start, grad, hooks) == (0, False, {})
        bytes_of = tuple(step * values.itemsize for step in stride)
        return np.lib.stride_tricks.as_strided(values, shape, bytes_of)

    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        return Unpickler(io.BytesIO(archive.read("archive/data.pkl"))).load()


def graph(folder: Path, name: str) -> list[list[int]]:
    """The sources of each target."""
    pointers, indices = (loaded(folder / BASE / "CSC" / name / f"{part}.pt") for part in ("indptr", "indices"))
    return [part.tolist() for part in np.split(indices, pointers[1:-1])]


def plain(found: list[list[int]]) -> list[list[int]]:
    """Sorted sources of each target, of (source, target)."""
    targets = [[] for _ in range(max(target for _, target in found) + 1)]
    for one, target in found:
        targets[target].append(one)
    return [sorted(sources) for sources in targets]


@pytest.mark.parametrize("name", [name for name in EDGES if name != source.CITES])
def test_edges_are_sorted_by_target_in_both_directions(ready, name):
    first, verb, second = name.split("__")
    assert graph(ready[0], name) == plain(pairs(name).tolist())
    assert graph(ready[0], f"{second}__rev_{verb}__{first}") == plain(pairs(name)[:, ::-1].tolist())


def test_citations_count_both_ways_and_every_paper_cites_itself_twice(ready):
    there = [pair for pair in pairs(source.CITES).tolist() if pair[0] != pair[1]]
    loops = [[paper, paper] for paper in range(max(map(max, there)) + 1)]
    assert graph(ready[0], source.CITES) == plain([*there, *(pair[::-1] for pair in there), *loops, *loops])


def test_features_become_float16_as_numpy_rounds_them(made, ready):
    for kind, count in NODES.items():
        rows = np.fromfile(made / BASE / kind / "node_feat.npy", "<f4")[-count * 1024 :].reshape(count, 1024)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(loaded(ready[0] / BASE / kind / "node_feat_fp16.pt"), rows.astype(np.float16))
    assert loaded(ready[0] / BASE / "fos" / "node_feat_fp16.pt")[0, :2].tolist() == [np.inf, -np.inf]


def test_seeds_are_those_of_pytorch():
    assert seeds.shuffle(10, 10, 42).tolist() == [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]  # torch.randperm(10), seed 42
    assert seeds.shuffle(10, 4, 42).tolist() == [2, 6, 1, 8]
    many = "e4e0f7c66bbd3b66058e1c85ff8ebeff56d90430609230c61576f63f73ae82c4"  # of PyTorch 2.13's, as int32
    assert hashlib.sha256(seeds.shuffle(100_000, 100_000, 42).tobytes()).hexdigest() == many


def test_the_block_changes_no_seed(monkeypatch):
    whole = seeds.shuffle(100, 70, 42)
    monkeypatch.setattr(seeds, "_BLOCK", 7)
    assert seeds.shuffle(100, 70, 42) == whole


def test_counts_and_seeds_are_those_of_the_set(ready):
    folder, counts = ready
    assert {name: counts[f"{name}_nodes"] for name in NODES} == NODES
    assert (counts["labelled"], counts["train_samples"], counts["eval_samples"]) == (50, 30, 0)
    assert loaded(folder / BASE / "train_idx.pt").tolist() == seeds.shuffle(50, 30, 42).tolist()
    assert loaded(folder / BASE / "val_idx.pt").tolist() == []
    assert (int(157_675_969 * seeds.TRAIN), int(157_675_969 * seeds.EVALUATED)) == (94_605_581, 788_379)
    assert igbh.invariants(folder, "csc", counts) == []


@pytest.mark.parametrize("block, most", [(1, 20), (7, 1), (64, 100)])
def test_the_bytes_depend_neither_on_the_workers_nor_on_the_memory(made, ready, tmp_path, monkeypatch, block, most):
    monkeypatch.setattr(compress, "BLOCK", block)
    monkeypatch.setattr(compress, "SORTED", most)
    assert prepare(made, tmp_path / "blocks") == ready[1]
    assert content(tmp_path / "blocks") == content(ready[0])


def test_what_is_done_is_not_made_again(made, ready, tmp_path, monkeypatch):
    assert prepare(made, tmp_path / "to", workers=2) == ready[1]
    (tmp_path / "to" / BASE / "CSC" / WRITTEN / "indptr.pt").unlink()
    read = []
    monkeypatch.setattr(
        compress, "pairs", lambda edges, nodes, real=compress.pairs: read.append(edges.name) or real(edges, nodes)
    )
    assert prepare(made, tmp_path / "to") == ready[1]
    assert set(read) == {WRITTEN}
    assert content(tmp_path / "to") == content(ready[0])


def edges(change):
    def spoil(folder: Path) -> None:
        path = folder / BASE / WRITTEN / "edge_index.npy"
        np.save(path, change(np.load(path)))

    return spoil


def put(name: str, data: bytes):
    return lambda folder: (folder / BASE / name).write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def replaced(array: np.ndarray, row: int, column: int, value: int) -> np.ndarray:
    array[row, column] = value
    return array


FEATURES = "fos/node_feat.npy"
BAD = {
    "an array is missing": (lambda folder: (folder / BASE / FEATURES).unlink(), f"no {BASE}/{FEATURES}"),
    "edges are missing": (lambda folder: shutil.rmtree(folder / BASE / WRITTEN), f"no {BASE}/{WRITTEN}/edge_index.npy"),
    "edges of no author": (edges(lambda found: replaced(found, 3, 1, 40)), "40"),
    "edges of no paper": (edges(lambda found: replaced(found, 3, 0, -1)), "-1"),
    "edges of another kind": (edges(lambda found: found.astype(np.int32)), "(150, 2) of int32"),
    "edges column by column": (edges(lambda found: found.T.copy()), "(2, 150) of int64"),
    "no edges": (edges(lambda found: found[:0]), "(0, 2) of int64"),
    "an error page as edges": (
        put(f"{WRITTEN}/edge_index.npy", b"<html>404</html>"),
        "16 bytes that begin with b'<html>'",
    ),
    "an error page as features": (put(FEATURES, b"<html>404</html>"), "begin with b'<html>'"),
    "features are cut": (put("paper/node_feat.npy", bytes(4095)), "4095 bytes that begin with"),
    "no features": (put("paper/node_feat.npy", b""), "0 bytes that begin with"),
    "a cut array": (lambda folder: cut(folder / BASE / FEATURES), "mmap length"),
    "features of another width": (
        lambda folder: np.save(folder / BASE / FEATURES, np.zeros((7, 128), np.float32)),
        "(7, 128) of float32",
    ),
}


@pytest.mark.parametrize("spoil, found", BAD.values(), ids=BAD)
def test_a_bad_source_is_refused(spoiled, tmp_path, spoil, found):
    spoil(spoiled)
    with pytest.raises(BadInput) as error:
        prepare(spoiled, tmp_path / "to")
    assert found in error.value.found
    assert error.value.next == "podium fetch igbh"


@pytest.mark.parametrize("value", [0, 61, "50", True])
def test_a_bad_number_of_labelled_papers_is_refused(made, tmp_path, value):
    with pytest.raises(BadInput, match="labelled"):
        prepare(made, tmp_path / "to", labelled=value)


def test_a_disk_that_is_too_small_is_noticed_first(made, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(made, tmp_path / "to")


def tensor(name: str, change):
    """Write a tensor with other values."""

    def spoil(folder: Path) -> None:
        path = folder / BASE / name
        values = change(np.array(pt.mapped(path)))
        with pt.writing(path, values.dtype.str, values.shape) as write:
            write(values)

    return spoil


def at(place: int, value: int):
    def change(values: np.ndarray) -> np.ndarray:
        values[place] = value
        return values

    return change


ONE = f"CSC/{WRITTEN}"
WRONG = {
    "a source of no paper": (tensor(f"{ONE}/indices.pt", at(149, 60)), f"{ONE}: expected sources below 60"),
    "sources that fall": (tensor(f"{ONE}/indices.pt", lambda found: found[::-1]), "expected sources that rise"),
    "an edge less": (tensor(f"{ONE}/indices.pt", lambda found: found[:-1]), "expected 150 edges, found 149"),
    "indptr that falls": (tensor(f"{ONE}/indptr.pt", at(5, 140)), "expected indptr that rises"),
    "indptr of too many": (tensor(f"{ONE}/indptr.pt", lambda found: np.append(found, [150] * 3)), "at most 40 nodes"),
    "indptr that ends early": (tensor(f"{ONE}/indptr.pt", lambda found: found[:-1]), "expected indptr from 0 to 150"),
    "rows are missing": (tensor("fos/node_feat_fp16.pt", lambda found: found[:-1]), "expected (7, 1024) of float16"),
    "a seed twice": (tensor("train_idx.pt", lambda found: at(0, found[1])(found)), "train_idx.pt: expected each paper"),
    "a seed without label": (tensor("train_idx.pt", at(0, 50)), "train_idx.pt: expected papers below 50"),
    "no tensor": (put("val_idx.pt", b"<html>"), "expected tensors, found"),
    "a cut tensor": (put(f"{ONE}/indices.pt", b"PK\x03\x04"), f"{ONE}: expected tensors, found"),
    "labels are cut": (put("paper/node_label_19.npy", bytes(9)), "paper/node_label_19.npy: expected at least 240"),
    "no labels": (lambda folder: (folder / BASE / "paper/node_label_2K.npy").unlink(), "node_label_2K.npy"),
}


@pytest.mark.parametrize("spoil, expected", WRONG.values(), ids=WRONG)
def test_the_check_finds_what_is_wrong(prepared, spoil, expected):
    folder, counts = prepared
    spoil(folder)
    assert any(expected in problem for problem in igbh.invariants(folder, "csc", counts))


def again(made: Path, folder: Path, counts: dict, share: float) -> Again:
    return igbh.rederive(Sample(made, folder, "csc", Manifest((), counts, PARAMS), random.Random(0), share))


def test_nodes_made_again_are_those_that_were_written(made, prepared):
    folder, counts = prepared
    assert again(made, folder, counts, 0.01) == Again(11 * 3 + 6 * 3, [])
    assert again(made, folder, counts, 1.0).problems == []


def test_what_differs_from_the_source_is_found(made, prepared):
    folder, counts = prepared
    for name, change in ((f"{ONE}/indices.pt", at(0, 59)), ("fos/node_feat_fp16.pt", at(3, 0))):
        tensor(name, change)(folder)
    problems = again(made, folder, counts, 1.0).problems
    assert len(problems) == 2
    assert problems[0].startswith(f"{ONE}: expected the ")
    assert problems[1] == "fos/node_feat_fp16.pt: expected the features of node 3, found others"


def test_a_tensor_that_is_too_short_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="2 values short"), pt.writing(tmp_path / "x.pt", "<i8", (3,)) as write:
        write(np.arange(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype, shape", [("<i8", (0,)), ("<i8", (5,)), ("<f2", (3, 4)), ("<f2", (2, 3, 4))])
def test_a_tensor_is_read_as_it_was_written_from_an_aligned_place(tmp_path, dtype, shape):
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    with pt.writing(tmp_path / "x.pt", dtype, shape) as write:
        write(values)
    np.testing.assert_array_equal(loaded(tmp_path / "x.pt"), values)
    np.testing.assert_array_equal(pt.mapped(tmp_path / "x.pt"), values)
    assert getattr(pt.mapped(tmp_path / "x.pt"), "offset", 0) % 64 == 0
