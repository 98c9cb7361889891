"""KiTS19: resampling against a slow float64 rewrite, and every way in which a source or a result can be wrong."""

import gzip
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel
import numpy as np
import pytest

from podium.data import catalog, kits19
from podium.data.again import Again, Sample
from podium.data.formats import nifti, npy
from podium.data.job import Job
from podium.data.kits19 import pool, published, resample
from podium.data.samples import kits19 as samples
from podium.errors import BadInput
from podium.manifest import Manifest

PARAMS = {"min_shape": [12, 16, 16]}
SPACING = (2.0, 1.0, 1.125)


def write(path: Path, voxels: np.ndarray, spacing=SPACING, affine=None, endianness="<", header=nibabel.Nifti1Header):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = header(endianness=endianness)
    head.set_data_dtype(voxels.dtype)
    affine = np.diag([*(-step for step in spacing), 1.0]) if affine is None else affine
    kind = nibabel.Nifti2Image if header is nibabel.Nifti2Header else nibabel.Nifti1Image
    image = kind(voxels, affine, head)
    image.header.set_zooms((*spacing, *[1.0] * (voxels.ndim - 3)))
    nibabel.save(image, path)


def case(source: Path, number: int, shape=(7, 21, 30), kidney=True, image=None, labels=None) -> Path:
    """A small case in the original form; returns its folder."""
    random = np.random.default_rng(number)
    folder = source / f"case_{number:05d}"
    if image is None:
        image = random.integers(-300, 500, shape).astype(np.int16)
    if labels is None:
        labels = np.zeros(shape, np.uint8)
        if kidney:
            labels[2:5, 5:15, 8:22] = 1
            labels[3, 8:10, 9:14] = 2
    write(folder / "imaging.nii.gz", image)
    write(folder / "segmentation.nii.gz", labels)
    return folder


def prepare(source: Path, to: Path, workers: int = 1, **params) -> dict:
    return kits19.prepare(Job(source, "npy", to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def source(tmp_path) -> Path:
    for number in (0, 1, 3):
        case(tmp_path / "source", number)
    return tmp_path / "source"


# --- arithmetic


def slow_trilinear(volume: np.ndarray, wanted: tuple[int, int, int]) -> np.ndarray:
    """Linear interpolation in float64 along one axis after the other, first and last sample aligned."""
    volume = volume.astype(np.float64)
    for axis, count in enumerate(wanted):
        places = np.linspace(0, volume.shape[axis] - 1, count)
        steps = np.arange(volume.shape[axis])
        volume = np.apply_along_axis(lambda line, at=places, of=steps: np.interp(at, of, line), axis, volume)
    return volume


@pytest.mark.parametrize("wanted", [(7, 9, 20), (20, 5, 11), (3, 40, 35), (1, 2, 3)])
@pytest.mark.parametrize("fused", [True, False])
def test_trilinear_equals_a_slow_rewrite(wanted, fused):
    volume = np.random.default_rng(1).integers(-1000, 2000, (7, 11, 18)).astype(np.int16)
    slabs = np.ascontiguousarray(volume.transpose(2, 1, 0))
    planes = [plane.copy() for plane in resample.trilinear(iter(slabs), volume.shape, wanted, fused)]
    if wanted[0] == 1:  # one sample is the first one, where linspace takes it too
        assert np.array_equal(planes[0][0, 0], volume[0, 0, 0])
    np.testing.assert_allclose(
        planes, slow_trilinear(volume, wanted), rtol=0, atol=5e-3
    )  # float32 positions, 3000 HU a voxel


@pytest.mark.parametrize("wanted", [(7, 9, 20), (20, 5, 11), (3, 40, 35)])
def test_nearest_takes_the_voxel_at_floor_of_i_times_size_over_wanted(wanted):
    volume = np.random.default_rng(1).integers(0, 3, (7, 11, 18)).astype(np.uint8)
    slabs = np.ascontiguousarray(volume.transpose(2, 1, 0))
    planes = np.array(list(resample.nearest_planes(iter(slabs), volume.shape, wanted)))
    picked = np.ix_(*[[i * size // new for i in range(new)] for size, new in zip(volume.shape, wanted, strict=True)])
    assert np.array_equal(planes, volume[picked])


def test_an_unchanged_size_leaves_the_values_alone():
    volume = np.random.default_rng(1).integers(-1000, 2000, (4, 5, 6)).astype(np.int16)
    slabs = np.ascontiguousarray(volume.transpose(2, 1, 0))
    planes = [plane.copy() for plane in resample.trilinear(iter(slabs), (4, 5, 6), (4, 5, 6), True)]
    assert np.array_equal(planes, volume)


def test_the_new_shape_is_cut_off_not_rounded():
    assert resample.new_shape((611, 512, 512), (0.5, 0.919921875, 0.919921875), (1.6, 1.2, 1.2)) == (190, 392, 392)


def test_padding_repeats_the_border_the_odd_voxel_behind():
    planes = [np.array([[1, 2]], np.uint8), np.array([[3, 4]], np.uint8)]
    pads = resample.padding((2, 1, 2), (5, 2, 2))
    assert pads == ((1, 2), (0, 1), (0, 0))
    found = [plane[:, 0].tolist() for plane in resample.padded(iter(planes), pads)]
    assert found == [[1, 1], [1, 1], [3, 3], [3, 3], [3, 3]]


def test_npy_files_are_those_of_numpy(tmp_path):
    array = np.random.default_rng(0).standard_normal((1, 4, 3, 5)).astype(np.float32)
    npy.write(tmp_path / "ours.npy", array.shape, np.float32, iter(array[0]))
    np.save(tmp_path / "theirs.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    with pytest.raises(ValueError, match="15 values short"):
        npy.write(tmp_path / "short.npy", array.shape, np.float32, iter(array[0, :3]))
    assert not (tmp_path / "short.npy").exists()


# --- the result


def test_a_whole_preparation(source, tmp_path):
    counts = prepare(source, tmp_path / "npy")
    assert (counts["cases"], counts["train"], counts["evaluation"]) == (3, 1, 2)
    assert sorted(content(tmp_path / "npy")) == sorted(
        [f"case_0000{number}_{letter}.npy" for number in (0, 1, 3) for letter in "xy"]
        + ["train_cases.txt", "evaluation_cases.txt", "checksum.json", "cases.csv"]
    )
    assert (tmp_path / "npy" / "evaluation_cases.txt").read_text() == "00000\n00003\n"
    x, y = (np.load(tmp_path / "npy" / f"case_00001_{letter}.npy") for letter in "xy")
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((1, 12, 17, 28), np.float32, (1, 12, 17, 28), np.uint8)
    assert set(np.unique(y)) == {0, 1, 2}
    assert float(x.min()) == pytest.approx(-180 / 76.9) and float(x.max()) == pytest.approx(203 / 76.9)
    assert kits19.invariants(tmp_path / "npy", "npy", counts) == []


def test_the_number_of_workers_changes_no_byte(source, tmp_path):
    assert prepare(source, tmp_path / "one", 1) == prepare(source, tmp_path / "three", 3)
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_a_finished_pair_is_kept_and_an_unfinished_one_made(source, tmp_path):
    to = tmp_path / "npy"
    counts = prepare(source, to)
    whole = content(to)
    (to / "case_00001_x.npy").unlink()
    (to / "checksum.json").unlink()
    kept = (to / "case_00003_x.npy").stat().st_ino
    assert prepare(source, to) == counts
    assert content(to) == whole
    assert (to / "case_00003_x.npy").stat().st_ino == kept


def test_own_split_and_spacing(source, tmp_path):
    counts = prepare(source, tmp_path / "npy", evaluation_cases=[1], target_spacing=[1, 1, 1], arithmetic="default")
    assert (tmp_path / "npy" / "evaluation_cases.txt").read_text() == "00001\n"
    assert np.load(tmp_path / "npy" / "case_00001_x.npy").shape == (1, 14, 21, 33)
    assert not counts["official_split"]
    assert kits19.invariants(tmp_path / "npy", "npy", counts) == []


def test_take_takes_of_each_split(source, tmp_path):
    case(source, 2)
    counts = prepare(source, tmp_path / "npy", take=1)
    assert (counts["cases"], counts["train"], counts["evaluation"]) == (2, 1, 1)
    assert sorted(path.name for path in (tmp_path / "npy").glob("*_x.npy")) == ["case_00000_x.npy", "case_00001_x.npy"]
    assert kits19.invariants(tmp_path / "npy", "npy", counts) == []


def test_the_forms_of_the_folder_give_the_same(source, tmp_path):
    prepare(source, tmp_path / "a")
    (tmp_path / "clone").mkdir()
    source.rename(tmp_path / "clone" / "data")
    prepare(tmp_path / "clone", tmp_path / "b")
    (tmp_path / "clone" / "images").mkdir()
    for folder in (tmp_path / "clone" / "data").iterdir():
        (folder / "imaging.nii.gz").rename(tmp_path / "clone" / "images" / f"{folder.name}.nii.gz")
    prepare(tmp_path / "clone", tmp_path / "c")
    (tmp_path / "clone" / "images").rename(tmp_path / "beside")
    for path in (tmp_path / "beside").iterdir():
        path.rename(tmp_path / "clone" / "data" / path.name.removesuffix(".nii.gz") / "imaging.nii.gz")
    (tmp_path / "clone" / "data").rename(tmp_path / "clone" / "input")
    prepare(tmp_path / "clone", tmp_path / "d")
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(tmp_path / "c") == content(tmp_path / "d")


def test_cases_of_the_challenge_are_skipped(source, tmp_path):
    case(source, 210)
    assert prepare(source, tmp_path / "npy")["skipped"] == 1


@pytest.mark.parametrize("variant", ["big-endian", "uint16 labels", "int32", "float32", "scaled", "NIfTI-2"])
def test_the_way_voxels_are_stored_changes_no_byte(tmp_path, variant):
    folder = case(tmp_path / "plain", 5)
    image = np.asarray(nibabel.load(folder / "imaging.nii.gz").dataobj)
    labels = np.asarray(nibabel.load(folder / "segmentation.nii.gz").dataobj)
    other = tmp_path / "other" / folder.name
    kind = {"int32": np.int32, "float32": np.float32}.get(variant, np.int16)
    if variant == "scaled":
        header = nibabel.Nifti1Header()
        header.set_data_dtype(np.uint16)
        header.set_slope_inter(1, -1024)
        header.set_data_shape(image.shape)
        header.set_zooms(SPACING)
        header.set_sform(np.diag([*(-step for step in SPACING), 1.0]))
        header["vox_offset"] = 352
        other.mkdir(parents=True)
        voxels = (image + 1024).astype("<u2").tobytes(order="F")
        (other / "imaging.nii.gz").write_bytes(gzip.compress(header.binaryblock + bytes(4) + voxels))
    elif variant == "big-endian":
        write(other / "imaging.nii.gz", image.astype(">i2"), endianness=">")
    else:
        head = nibabel.Nifti2Header if variant == "NIfTI-2" else nibabel.Nifti1Header
        write(other / "imaging.nii.gz", image.astype(kind), header=head)
    write(other / "segmentation.nii.gz", labels.astype(np.uint16 if variant == "uint16 labels" else np.uint8))
    prepare(tmp_path / "plain", tmp_path / "a")
    prepare(tmp_path / "other", tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_no_two_axes_are_alike(tmp_path):
    """case_00160 is 512 x 796 in plane."""
    case(tmp_path / "source", 160, shape=(6, 20, 31))
    prepare(tmp_path / "source", tmp_path / "npy", min_shape=[1, 1, 1])
    assert np.load(tmp_path / "npy" / "case_00160_x.npy").shape == (1, 7, 16, 29)


def test_a_case_without_kidney_is_named(source, tmp_path):
    case(source, 7, kidney=False)
    counts = prepare(source, tmp_path / "npy")
    assert counts["without_kidney"] == ["case_00007"]
    assert kits19.invariants(tmp_path / "npy", "npy", counts) == []


# --- bad input


def spoil_checksum(folder: Path) -> None:
    path = folder / "imaging.nii.gz"
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF
    path.write_bytes(data)


def spoil_body(folder: Path) -> None:
    path = folder / "segmentation.nii.gz"
    data = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(data[:-100]))


def truncate(folder: Path) -> None:
    path = folder / "imaging.nii.gz"
    path.write_bytes(path.read_bytes()[:-2000])


def truncate_in_header(folder: Path) -> None:
    (folder / "imaging.nii.gz").write_bytes((folder / "imaging.nii.gz").read_bytes()[:30])


def error_page(folder: Path) -> None:
    (folder / "imaging.nii.gz").write_bytes(b"<!DOCTYPE html><title>404 Not Found</title>")


def zipped_error_page(folder: Path) -> None:
    (folder / "imaging.nii.gz").write_bytes(gzip.compress(b"<!DOCTYPE html><title>404 Not Found</title>" * 20))


def empty_file(folder: Path) -> None:
    (folder / "imaging.nii.gz").write_bytes(b"")


def no_segmentation(folder: Path) -> None:
    (folder / "segmentation.nii.gz").unlink()


def other_shape(folder: Path) -> None:
    write(folder / "segmentation.nii.gz", np.ones((7, 21, 29), np.uint8))


def strange_label(folder: Path) -> None:
    labels = np.ones((7, 21, 30), np.uint8)
    labels[6, 20, 29] = 3
    write(folder / "segmentation.nii.gz", labels)


def wide_label(folder: Path) -> None:
    write(folder / "segmentation.nii.gz", np.full((7, 21, 30), 257, np.uint16))


def half_label(folder: Path) -> None:
    write(folder / "segmentation.nii.gz", np.full((7, 21, 30), 1.5, np.float32))


def other_spacing(folder: Path) -> None:
    write(folder / "segmentation.nii.gz", np.ones((7, 21, 30), np.uint8), spacing=(2.5, 1.0, 1.125))


def turned(folder: Path) -> None:
    write(folder / "segmentation.nii.gz", np.ones((7, 21, 30), np.uint8), affine=np.diag([2.0, 1.0, 1.125, 1.0]))


def four_axes(folder: Path) -> None:
    write(folder / "imaging.nii.gz", np.ones((7, 21, 30, 2), np.int16))


def not_a_number(folder: Path) -> None:
    write(folder / "imaging.nii.gz", np.full((7, 21, 30), np.nan, np.float32))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_checksum, "imaging.nii.gz is damaged"),
        (spoil_body, "segmentation.nii.gz is damaged"),
        (truncate, "imaging.nii.gz is damaged"),
        (truncate_in_header, "imaging.nii.gz is damaged"),
        (error_page, "is not a gzip file"),
        (zipped_error_page, "is not a NIfTI file"),
        (empty_file, "is not a gzip file"),
        (no_segmentation, "no segmentation.nii.gz in"),
        (other_shape, "differ in shape"),
        (strange_label, "found:    3"),
        (wide_label, "found:    257"),
        (half_label, "found:    1.5"),
        (other_spacing, "differ in voxel size"),
        (turned, "differ in position"),
        (four_axes, "is not a 3-D volume"),
        (not_a_number, "values that are no numbers"),
    ],
)
def test_a_wrong_source_is_named(source, tmp_path, spoil, says):
    spoil(source / "case_00001")
    with pytest.raises(BadInput) as caught:
        prepare(source, tmp_path / "npy")
    assert says in str(caught.value) and "case_00001" in str(caught.value)
    assert not (tmp_path / "npy" / "checksum.json").exists()


def test_all_wrong_cases_are_named_and_the_others_finished(source, tmp_path):
    spoil_checksum(source / "case_00000")
    strange_label(source / "case_00003")
    with pytest.raises(BadInput) as caught:
        prepare(source, tmp_path / "npy", workers=2)
    assert "2 cases" in caught.value.thing
    assert "case_00000" in caught.value.found and "case_00003" in caught.value.found
    assert {"case_00001_x.npy", "case_00001_y.npy"} <= content(tmp_path / "npy").keys()
    assert "case_00000_x.npy" not in content(tmp_path / "npy")


def test_an_empty_folder(tmp_path):
    with pytest.raises(BadInput, match="no cases in"):
        prepare(tmp_path, tmp_path / "npy")


@pytest.mark.parametrize(
    "params",
    [
        {"arithmetic": "sse"},
        {"min_shape": [128, 128]},
        {"min_shape": [0, 1, 1]},
        {"target_spacing": [1.6, 1.2, -1]},
        {"target_spacing": "1.6"},
        {"evaluation_cases": ["case_00001"]},
        {"evaluation_cases": [2]},
        {"target_spacing": [100, 1, 1]},
    ],
)
def test_wrong_parameters(source, tmp_path, params):
    with pytest.raises(BadInput) as caught:
        prepare(source, tmp_path / "npy", **params)
    assert next(iter(params)) in str(caught.value)


# --- verification


@pytest.fixture
def prepared(source, tmp_path) -> tuple[Path, dict]:
    return tmp_path / "npy", prepare(source, tmp_path / "npy")


def change(path: Path, index: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    data[index] = value
    path.write_bytes(data)


def test_every_problem_is_listed(prepared):
    folder, counts = prepared
    change(folder / "case_00000_y.npy", -1, 3)
    change(folder / "case_00001_x.npy", -1, 0x7F)
    (folder / "case_00003_x.npy").unlink()
    (folder / "case_00003_y.npy").write_bytes(b"page not found")
    (folder / "dummy_case_x.npy").write_bytes(b"")
    (folder / "train_cases.txt").write_text("00000\n")
    problems = "\n".join(kits19.invariants(folder, "npy", counts))
    for words in (
        "case_00000_y.npy: expected md5",
        "case_00000_y.npy: expected labels 0, 1 and 2, found labels up to 3",
        "case_00001_x.npy: expected md5",
        "case_00001_x.npy: expected values in [-2.3407, 2.6398]",
        "case_00003_x.npy: expected a file, found nothing",
        "case_00003_y.npy: expected an array",
        "dummy_case_x.npy: expected no such file",
        "train_cases.txt: expected the 1 cases of cases.csv",
    ):
        assert words in problems


def test_an_edited_split_and_a_wrong_shape(prepared):
    folder, counts = prepared
    table = (folder / "cases.csv").read_text().replace("case_00003,evaluation", "case_00003,train")
    (folder / "cases.csv").write_text(table.replace(",12,17,28,", ",12,17,29,", 1))
    problems = "\n".join(kits19.invariants(folder, "npy", counts))
    assert "evaluation_cases.txt: expected the official split, found others: case_00003" in problems
    assert "cases.csv: expected 2 evaluation cases, found 1" in problems
    assert "case_00000_x.npy: expected float32 of shape (1, 12, 17, 29)" in problems


def test_shapes_kidneys_and_voxels_are_held_to_the_counts(prepared):
    folder, counts = prepared
    others = {"target_spacing": [1, 1, 1], "without_kidney": ["case_00001"], "voxels": 1}
    problems = kits19.invariants(folder, "npy", counts | others)
    assert "cases.csv, case_00001: expected shape (14, 21, 33), found (12, 17, 28)" in problems
    assert "cases.csv: expected no kidney in ['case_00001'], found none in []" in problems
    assert f"cases.csv: expected 1 voxels, found {counts['voxels']}" in problems
    assert len(problems) == 5


# --- made again


def again(source: Path, to: Path, counts: dict, **params) -> Again:
    content = Manifest((), counts, PARAMS | params)
    return kits19.rederive(Sample(source, to, "npy", content, random.Random(0), share=1.0))


@pytest.mark.parametrize("arithmetic", ["avx2", "default"])
@pytest.mark.parametrize("spacing", [[1.6, 1.2, 1.2], [0.7, 2.5, 0.9], [5, 1, 1]])
def test_every_case_made_again_is_that_of_the_layout(source, tmp_path, arithmetic, spacing):
    case(source, 4, shape=(9, 33, 18))
    params = {"arithmetic": arithmetic, "target_spacing": spacing}
    counts = prepare(source, tmp_path / "npy", **params)
    assert again(source, tmp_path / "npy", counts, **params) == Again(4, [])


def test_another_image_label_or_shape_in_the_source_is_found(source, tmp_path):
    counts = prepare(source, tmp_path / "npy")
    image = np.asarray(nibabel.load(source / "case_00000" / "imaging.nii.gz").dataobj).copy()
    image[3, 10, 15] = 300 if image[3, 10, 15] < 100 else -100
    case(source, 0, image=image)
    labels = np.asarray(nibabel.load(source / "case_00001" / "segmentation.nii.gz").dataobj).copy()
    labels[2:4] = 2
    case(source, 1, labels=labels)
    case(source, 3, shape=(8, 21, 30))
    problems = again(source, tmp_path / "npy", counts).problems
    assert problems[0].startswith("case_00000_x.npy: expected values within 0.0001, found one that differs by ")
    assert problems[1].startswith("case_00001_y.npy: expected the labels of the source, found ")
    assert all(problem.startswith("case_00003") for problem in problems[2:])
    assert len(problems) > 2


def test_a_folder_without_tables(tmp_path):
    assert "cases.csv" in kits19.invariants(tmp_path, "npy", {})[0]


def test_labels_of_a_published_case_are_held_to_the_published_hash(prepared, monkeypatch):
    folder, counts = prepared
    row = published.Published("case_00001", False, (7, 21, 30), SPACING, (12, 17, 28), "0" * 32, "f" * 32)
    monkeypatch.setattr(published, "cases", lambda: {"case_00001": row})
    monkeypatch.setattr(published, "official_evaluation", lambda: (0, 3))
    problems = kits19.invariants(folder, "npy", counts)
    assert len(problems) == 1 and "case_00001_y.npy: expected the published md5 ffff" in problems[0]
    again = prepare(folder.parent / "source", folder)
    assert (again["published"], again["published_y_equal"], again["published_x_equal"]) == (1, 0, 0)
    assert "case_00043" in again["published_x_note"]


# --- what is published


def test_the_published_table():
    rows = published.cases()
    assert list(rows) == [f"case_{number:05d}" for number in range(210)]
    assert len(published.official_evaluation()) == 42
    voxels = sum(int(np.prod(row.shape)) for row in rows.values())
    assert voxels * 5 + 2 * 128 * 210 == 30_786_131_935
    for row in rows.values():
        wanted = resample.new_shape(row.raw_shape, row.spacing, (1.6, 1.2, 1.2))
        assert tuple(max(size, 128) for size in wanted) == row.shape


def test_the_catalog_names_both_files_of_every_case():
    items = {item.path: item for item in catalog.known(catalog.entry("kits19"))}
    assert len(items) == 420
    segmentation, imaging = items["case_00160/segmentation.nii.gz"], items["case_00160/imaging.nii.gz"]
    assert (segmentation.bytes, segmentation.hashes["sha256"][:8]) == (723271, "56ba118c")
    assert all(source.endswith("/data/case_00160/segmentation.nii.gz") for source in segmentation.sources)
    assert imaging.sources[0].endswith("/images/case_00160.nii.gz")
    assert sum(item.bytes or 0 for item in items.values()) == 65_409_835


def test_a_phantom_with_a_published_number_is_another_case():
    row = published.cases()["case_00007"]
    assert published.match(row.name, row.raw_shape, row.spacing, row.shape) is row
    assert published.match(row.name, (20, 96, 80), row.spacing, row.shape) is None
    assert published.match(row.name, row.raw_shape, (3.0, 1.0, 1.0), row.shape) is None
    assert published.match("case_00300", row.raw_shape, row.spacing, row.shape) is None


# --- memory


def test_no_more_runs_at_once_than_memory_allows(monkeypatch):
    monkeypatch.setattr(pool, "free_memory", lambda: 1000)  # of which 800 may be used
    running, most, lock = [], [], threading.Lock()

    def work(need: int) -> int:
        with lock:
            running.append(need)
            most.append(sum(running))
        time.sleep(0.01)
        with lock:
            running.remove(need)
        return need

    needs = {0: 300, 1: 500, 2: 2000, 3: 300, 4: 100, 5: 500}
    tasks = {key: (need,) for key, need in needs.items()}
    with ThreadPoolExecutor(4) as workers:
        assert dict(pool.in_memory(workers, 4, work, tasks, needs)) == needs
    assert max(most) == 2000, "a task larger than the limit runs alone"
    assert max(total for total in most if total != 2000) <= 800


def test_the_free_memory_is_a_sane_number():
    assert 2**20 < pool.free_memory() < 2**50


# --- samples


def test_samples_are_whole_cases_around_an_untouched_segmentation(tmp_path):
    folder = case(tmp_path / "data" / "kits19", 12)
    (folder / "imaging.nii.gz").unlink()
    for to in ("a", "b"):
        samples.make(tmp_path / "data", tmp_path / to)
    assert content(tmp_path / "a" / folder.name) == content(tmp_path / "b" / folder.name)
    made = tmp_path / "a" / folder.name
    assert (made / "segmentation.nii.gz").read_bytes() == (folder / "segmentation.nii.gz").read_bytes()
    image, labels = (nibabel.load(made / f"{name}.nii.gz") for name in ("imaging", "segmentation"))
    assert image.get_data_dtype() == np.int16 and np.array_equal(image.affine, labels.affine)
    values, classes = image.get_fdata(), labels.get_fdata()
    assert abs(values[classes == 0].mean() - 40) < 1 and abs(values[classes == 1].mean() - 140) < 1
    assert prepare(tmp_path / "a", tmp_path / "npy")["cases"] == 1


def test_no_sample_data(tmp_path):
    with pytest.raises(BadInput, match="no sample cases"):
        samples.make(tmp_path, tmp_path / "to")


def test_slabs_are_read_in_file_order(tmp_path):
    volume = np.arange(2 * 3 * 4, dtype=np.int16).reshape(2, 3, 4)
    write(tmp_path / "volume.nii.gz", volume)
    header = nifti.read_header(tmp_path / "volume.nii.gz")
    assert header.shape == (2, 3, 4)
    assert np.array_equal([slab.copy() for slab in nifti.slabs(header)], volume.transpose(2, 1, 0))


def test_checksum_json_is_a_flat_table(prepared):
    folder, _ = prepared
    sums = json.loads((folder / "checksum.json").read_text())
    assert len(sums) == 6 and all(len(value) == 32 for value in sums.values())
