"""The layout of sets that are read as they are fetched: counts, beginnings, headers, indices."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from podium import config as configuration
from podium import plan
from podium.data import catalog, fetch, layout, verify
from podium.data.formats import megatron
from podium.errors import BadInput


def rules(monkeypatch, *rules):
    """A set `some` with those rules in the catalog."""
    monkeypatch.setattr(catalog, "names", lambda: ["some"])
    monkeypatch.setattr(catalog, "entry", lambda name: {"layout": rules})


def index(lengths, bytes_a_token=4, documents=None):
    """An index of a Megatron token file with sequences of those lengths."""
    kind = {2: 8, 4: 4}[bytes_a_token]
    documents = len(lengths) + 1 if documents is None else documents
    places = np.cumsum([0, *lengths[:-1]]) * bytes_a_token
    return b"".join(
        (
            megatron.MAGIC + struct.pack("<QBQQ", 1, kind, len(lengths), documents),
            np.array(lengths, "<i4").tobytes(),
            np.array(places, "<i8").tobytes(),
            np.arange(documents, dtype="<i8").tobytes(),
        )
    )


def test_counts_and_beginnings(tmp_path, monkeypatch):
    rules(monkeypatch, {"files": ["*.parquet", "*.pq"], "count": 2, "begins": "50415231"})
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and so on")
    assert layout.problems("some", tmp_path) == ["*.parquet, *.pq: 2 files expected, 1 found"]
    (tmp_path / "b.pq").write_bytes(b"<html>")
    assert layout.problems("some", tmp_path) == ["b.pq: it begins with b'<htm', not with b'PAR1'"]


def test_arrays_are_told_by_their_headers(tmp_path, monkeypatch):
    rules(monkeypatch, {"files": ["*.npy"], "count": 2, "npy": {"dtype": "float32", "columns": 13, "rows": 7}})
    np.save(tmp_path / "a.npy", np.zeros((3, 13), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((4, 13), np.float32))
    assert layout.problems("some", tmp_path) == []
    np.save(tmp_path / "b.npy", np.zeros((5, 12), np.float64))
    assert layout.problems("some", tmp_path) == [
        "b.npy: 13 columns of float32 expected, 12 of float64 found",
        "2 arrays: 7 rows expected, 8 found",
    ]
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-4])
    (tmp_path / "b.npy").write_bytes(b"")
    found = layout.problems("some", tmp_path)
    assert found[0] == f"a.npy: {len(whole)} bytes by its header, {len(whole) - 4} found"
    assert found[1].startswith("b.npy: no .npy header")


@pytest.mark.parametrize("bytes_a_token", [2, 4])
def test_a_token_file_fits_its_index(tmp_path, monkeypatch, bytes_a_token):
    rules(monkeypatch, {"files": ["a.idx"], "count": 1, "megatron": {"sequences": 3, "tokens": 12}})
    (tmp_path / "a.idx").write_bytes(index([3, 4, 5], bytes_a_token))
    (tmp_path / "a.bin").write_bytes(bytes(12 * bytes_a_token))
    assert layout.problems("some", tmp_path) == []
    (tmp_path / "a.bin").write_bytes(bytes(11 * bytes_a_token))
    assert "by its index" in layout.problems("some", tmp_path)[0]
    (tmp_path / "a.bin").unlink()
    assert layout.problems("some", tmp_path)[0].endswith("no file found")
    (tmp_path / "a.idx").write_bytes(index([3, 4], bytes_a_token))
    told = layout.problems("some", tmp_path)
    assert "a.idx: 3 sequences expected, 2 found" in told
    assert "a.idx: at least 12 tokens expected, 7 found" in told


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "no index of a token file"),
        (b"<html>" * 20, "no index of a token file"),
        (index([1, 2])[:-1], "bytes by its header"),
        (megatron.MAGIC + struct.pack("<QBQQ", 2, 4, 0, 0), "version 2"),
        (megatron.MAGIC + struct.pack("<QBQQ", 1, 99, 0, 0), "kind of token 99"),
    ],
)
def test_a_damaged_index_is_told(tmp_path, monkeypatch, content, said):
    rules(monkeypatch, {"files": ["a.idx"], "count": 1, "megatron": {}})
    (tmp_path / "a.idx").write_bytes(content)
    assert said in layout.problems("some", tmp_path)[0]


def govreport(write_config, source):
    sets = {
        "govreport": {"source": f"file:{source}", "layout": "raw"},
        "imagenet": {"source": "demo", "layout": "folder"},
    }
    config = configuration.load(write_config(data={"sets": sets}))
    return config, config.dataset("govreport")


def test_a_set_of_the_catalog_is_fetched_and_verified_by_its_layout(tmp_path, write_config):
    source = tmp_path / "source"
    source.mkdir()
    (source / "train-00000-of-00001.parquet").write_bytes(b"PAR1 train")
    config, dataset = govreport(write_config, source)
    with pytest.raises(BadInput, match="has not the layout of govreport") as error:
        fetch.fetch(config, dataset)
    assert "2 files expected, 1 found" in error.value.found
    (source / "validation-00000-of-00001.parquet").write_bytes(b"PAR1 validation")
    fetch.fetch(config, dataset)
    raw = plan.layout_folder(config, dataset)
    assert raw == plan.raw_folder(config, "govreport")
    assert verify.problems(config, dataset, "full") == []
    (raw / "train-00000-of-00001.parquet").write_bytes(b"none")
    assert len(verify.problems(config, dataset, "quick")) == 2
    with pytest.raises(BadInput, match="nothing was made of govreport"):
        verify.verify(config, dataset, "sample")
