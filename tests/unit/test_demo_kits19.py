"""The demo's KiTS19: the original form, the same bytes each time, and phantoms that the preparation accepts."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest

from podium import files
from podium.data import kits19
from podium.data.demo import kits19 as demo
from podium.data.job import Job


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kits19")
    demo.make(folder)
    return folder


def test_every_case_is_a_pair_of_one_grid_in_the_original_form(source):
    folders = sorted(source.iterdir())
    assert [folder.name for folder in folders] == [f"case_{number:05d}" for number in range(20)]
    for folder in folders:
        image, label = (nibabel.load(folder / f"{kind}.nii.gz") for kind in ("imaging", "segmentation"))
        assert (image.get_data_dtype(), label.get_data_dtype()) == (np.int16, np.uint8)
        assert image.shape == label.shape
        assert np.array_equal(image.affine, label.affine)
        assert nibabel.aff2axcodes(image.affine) == ("I", "P", "L")  # slices first, as in KiTS19
        spacing = image.header.get_zooms()
        assert spacing[0] != pytest.approx(1.6) and spacing[1] == spacing[2] != pytest.approx(1.2)


def test_kidneys_are_bright_tumours_are_dark_and_both_are_everywhere(source):
    for folder in source.iterdir():
        image, label = (nibabel.load(folder / f"{kind}.nii.gz").get_fdata() for kind in ("imaging", "segmentation"))
        for kind, intensity in enumerate((demo.TISSUE, demo.KIDNEY, demo.TUMOUR)):
            assert np.count_nonzero(label == kind) > 50
            assert np.median(image[label == kind]) == pytest.approx(intensity, abs=8)
        lookalikes = (label == 0) & ((image < demo.TUMOUR + 30) | (image > demo.KIDNEY - 30))
        assert lookalikes.any()  # intensity alone does not solve it


def test_the_bytes_are_the_same_each_time_and_hold_no_time(source, tmp_path):
    demo.make(tmp_path)
    for path in files.walk(source):
        content = (source / path).read_bytes()
        assert content == (tmp_path / path).read_bytes()
        assert content[3] == 0 and content[4:8] == bytes(4)  # gzip: no file name, no time
        assert len(gzip.decompress(content)) > 352  # the NIfTI header


def test_the_preparation_resamples_and_pads_them_to_the_demos_size(source, tmp_path):
    params = {"evaluation_cases": list(demo.EVALUATION_CASES), "min_shape": list(demo.LEAST_SHAPE)}
    counts = kits19.prepare(Job(source, "npy", tmp_path, params))
    assert (counts["train"], counts["evaluation"]) == (16, 4)
    assert kits19.invariants(tmp_path, "npy", counts) == []
    for number in range(demo.CASES):
        raw = nibabel.load(source / f"case_{number:05d}" / "imaging.nii.gz").shape
        x, y = (np.load(tmp_path / f"case_{number:05d}_{letter}.npy") for letter in "xy")
        assert x.shape == y.shape
        assert x.shape[1:] != raw
        assert np.abs(np.array(x.shape[1:]) - (17, 25, 25)).max() <= 2
        assert set(np.unique(y)) == {0, 1, 2}
        # The clip of the preparation, -79 to 304, cuts next to nothing but noise.
        assert np.count_nonzero(x == x.min()) < 0.01 * x.size
