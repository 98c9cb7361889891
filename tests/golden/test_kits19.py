"""KiTS19 against the reference's own output: preprocess_dataset.py with torch 2.13.0, and the published hashes of y."""

import json
from pathlib import Path

import numpy as np
import pytest

from podium.data import kits19
from podium.data.job import Job
from podium.data.samples import kits19 as samples

DATA = Path(__file__).parents[2].parent / "shared" / "data"
GOLDEN = DATA / "goldens" / "kits19"
SAMPLES = DATA / "sample_data"
needs_golden = pytest.mark.skipif(not GOLDEN.exists(), reason=f"no oracle data at {GOLDEN}")
needs_samples = pytest.mark.skipif(not SAMPLES.exists(), reason=f"no sample data at {SAMPLES}")


def oracle() -> dict[str, dict]:
    """What the reference made of each case of the golden set."""
    cases = json.loads((GOLDEN / "expected.json").read_text())["cases"]
    return {name: case for name, case in cases.items() if not case.get("skipped")}


@pytest.fixture(scope="module", params=[("avx2", 1), ("default", 3)], ids=["avx2", "default"])
def prepared(request, tmp_path_factory) -> tuple[str, Path, dict]:
    arithmetic, workers = request.param
    to = tmp_path_factory.mktemp("npy")
    counts = kits19.prepare(Job(GOLDEN / "input", "npy", to, {"arithmetic": arithmetic}, workers))
    return arithmetic, to, counts


@needs_golden
def test_every_array_has_the_bytes_of_the_reference(prepared):
    arithmetic, to, _ = prepared
    found = json.loads((to / "checksum.json").read_text())
    expected = {}
    for name, case in oracle().items():
        expected |= {f"{name}_x.npy": case[f"x_md5_{arithmetic}"], f"{name}_y.npy": case["y_md5"]}
    assert found == expected


@needs_golden
def test_the_content_is_that_of_the_reference(prepared):
    _, to, _ = prepared
    for name, case in oracle().items():
        x, y = (np.load(to / f"{name}_{letter}.npy") for letter in "xy")
        assert list(x.shape) == list(y.shape) == case["shape"]
        assert {str(label): count for label, count in enumerate(np.bincount(y.ravel()))} == case["y_counts"]
        assert float(x.mean(dtype=np.float64)) == pytest.approx(case["mean64"], abs=1e-5)
        flat = x.ravel()
        step = flat.size // 64
        places = [k * step + (k * 7919) % step for k in range(64)]
        samples = np.frombuffer(bytes.fromhex(case["x_samples_f32le_hex"]), "<f4")
        np.testing.assert_allclose(flat[places], samples, rtol=0, atol=1e-5)


@needs_golden
def test_cases_and_lists(prepared):
    _, to, counts = prepared
    assert (counts["cases"], counts["train"], counts["evaluation"], counts["skipped"]) == (6, 3, 3, 1)
    assert (to / "evaluation_cases.txt").read_text() == "00000\n00003\n00160\n"
    assert (to / "train_cases.txt").read_text() == "00007\n00015\n00209\n"
    assert counts["published"] == 0, "crops and phantoms carry published numbers but are other cases"
    assert kits19.invariants(to, "npy", counts) == []


@needs_samples
def test_real_segmentations_give_the_published_labels(tmp_path):
    few = tmp_path / "few" / "kits19"
    few.mkdir(parents=True)
    for number in (15, 38, 61):  # uint16; the two thinnest, padded
        (few / f"case_{number:05d}").symlink_to(SAMPLES / "kits19" / f"case_{number:05d}")
    samples.make(few.parent, tmp_path / "source")
    counts = kits19.prepare(Job(tmp_path / "source", "npy", tmp_path / "npy", workers=2))
    assert (counts["published"], counts["published_y_equal"]) == (3, 3)
    assert kits19.invariants(tmp_path / "npy", "npy", counts) == []
