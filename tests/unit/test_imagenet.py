"""ImageNet: every form gives the same bytes, whatever interrupts it; every kind of bad input is named."""

import base64
import csv
import errno
import io
import random
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from podium import files, manifest
from podium.data import imagenet
from podium.data.again import Again, Sample
from podium.data.formats import example, jpeg, recordio, tfrecord
from podium.data.imagenet import checks, source
from podium.data.job import Job
from podium.data.samples import imagenet as sample
from podium.errors import BadEnvironment, BadInput

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sample_data"
WNIDS = ("n00000010", "n00000020", "n00000030")
SHARDS = {"train": 4, "validation": 2}

# meta.mat with the classes 1: n00000030, 2: n00000010, 3: n00000020, 4: n00000099 (a parent), by scipy 1.17 savemat.
META = base64.b64decode(
    "DwAAAA8BAAB4nONjYGB4wMHAwAakgRQDEwMEsEL5LEDMCMXsQFxcmVecWlIMlGdhEISKdwCxp09wWJCzkYGhUbynC8iAcD8IDQfl+UUpxcgC6Tn5"
    "xSgCeaW58ckZmTkpRal5YAEUDsyMvNSS+IzUzPSMEqiWkqLEzLz4zNzE9NRiBj6goAUDwj9saP5hRMIgwAkVh4AP9iD9Dkj6WbDo50TSLwDl5xmA"
    "gbEBVBzdHdjMYUMzhx3qQ4XDK8nSD+IrQEOVsnCA6DfAox8GkPVj8zc54U+2/oApDhT624HC+Dccjf+hHP8clMa/0Wj8D+X4F6A0/i0tcYTD0Ip/"
    "SD7wIKCfGU2/BFz/B3sowwHZvIFMFwA1wV3y"
)


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (8 + seed % 5, 12, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels, quality=30 + seed % 60)


def images(per_class: int = 4) -> tuple[dict[str, bytes], dict[str, bytes], list[str]]:
    """Training images by `<wnid>/<name>`, validation images by name, and their labels."""
    train = {
        f"{wnid}/{wnid}_{7 * number + 3}.JPEG": picture(100 * place + number)
        for place, wnid in enumerate(WNIDS)
        for number in range(per_class)
    }
    labels = [WNIDS[number] for number in (1, 0, 2, 2, 1, 0)]
    validation = {f"ILSVRC2012_val_{number + 1:08d}.JPEG": picture(900 + number) for number in range(len(labels))}
    return train, validation, labels


def tarred(members: dict[str, bytes]) -> bytes:
    """A tar by the standard library, members in reverse order: no order may matter."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in reversed(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def class_tars(train: dict[str, bytes]) -> dict[str, bytes]:
    return {
        f"{wnid}.tar": tarred({name.split("/")[1]: data for name, data in train.items() if name.startswith(wnid)})
        for wnid in sorted({name.split("/")[0] for name in train})
    }


def put(folder: Path, content: dict[str, bytes]) -> Path:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def lines(labels: list[str]) -> bytes:
    return "".join(f"{wnid}\n" for wnid in labels).encode()


def foldered(validation: dict[str, bytes], labels: list[str]) -> dict[str, bytes]:
    return {f"{wnid}/{name}": data for wnid, (name, data) in zip(labels, validation.items(), strict=True)}


def below(folder: str, content: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in content.items()}


def tars(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    """The form of image-net.org with the labels list of the reference."""
    return {
        "ILSVRC2012_img_train.tar": tarred(class_tars(train)),
        "ILSVRC2012_img_val.tar": tarred(validation),
        "synset_labels.txt": lines(labels),
    }


def tars_with_devkit(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    ids = {"n00000030": 1, "n00000010": 2, "n00000020": 3}
    root = "ILSVRC2012_devkit_t12/data"
    kit = {
        f"{root}/meta.mat": b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + META,
        f"{root}/ILSVRC2012_validation_ground_truth.txt": "".join(f"{ids[wnid]}\n" for wnid in labels).encode(),
    }
    content = tars(train, validation, labels)
    content["ILSVRC2012_devkit_t12.tar"] = tarred(kit)
    return content | {"ILSVRC2012_img_train_t3.tar": b"the dogs of task 3"}


def flat_folders(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    moves = "".join(f"mv {name} {wnid}/\n" for wnid, name in zip(labels, validation, strict=True))
    script = "#!/bin/bash\nmkdir -p n00000010\n" + moves
    return below("train", train) | below("validation", validation) | {"valprep.sh": script.encode()}


def class_folders(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    return below("train", train) | below("val", foldered(validation, labels))


def half_unpacked(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    return below("train", class_tars(train)) | {"val.tar": tarred(below("./val", foldered(validation, labels)))}


def kaggle(train: dict, validation: dict, labels: list[str]) -> dict[str, bytes]:
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["ImageId", "PredictionString"])
    pairs = zip(validation, labels, strict=True)
    writer.writerows(reversed([[Path(name).stem, f"{wnid} 85 1 499 272"] for name, wnid in pairs]))
    root = "ILSVRC/Data/CLS-LOC"
    return (
        below(f"{root}/train", train)
        | below(f"{root}/val", validation)
        | below(f"{root}/test", {"ILSVRC2012_test_00000001.JPEG": picture(1)})
        | {"LOC_val_solution.csv": table.getvalue().encode()}
    )


FORMS = (tars, tars_with_devkit, flat_folders, class_folders, half_unpacked, kaggle)


def prepare(folder: Path, to: Path, layout: str = "recordio", workers: int = 1, **params) -> dict:
    return imagenet.prepare(Job(folder, layout, to, params, workers))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): (folder / path).read_bytes() for path in files.walk(folder)}


def params_of(layout: str) -> dict:
    return {"shards": SHARDS} if layout in ("tfrecord", "webdataset") else {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return put(tmp_path / "source", tars(*images()))


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "to"


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_every_form_gives_the_same_bytes_with_any_number_of_workers(layout, tmp_path):
    results = []
    for workers, form in enumerate(FORMS, start=1):
        folder, to = put(tmp_path / form.__name__, form(*images())), tmp_path / f"to-{form.__name__}"
        counts = prepare(folder, to, layout, workers, **params_of(layout))
        assert (counts["train"], counts["val"], counts["classes"]) == (12, 6, 3)
        assert (counts["train_per_class"], counts["val_per_class"]) == ([4, 4], [2, 2])
        assert imagenet.invariants(to, layout, counts) == []
        results.append(content(to))
    assert all(result == results[0] for result in results)


def test_recordio_labels_count_from_0_in_the_order_of_the_wnids(folder, to):
    prepare(folder, to)
    train, _, _ = images()
    listed = [line.split("\t") for line in (to / "train.lst").read_text().splitlines()]
    for record, (number, label, name) in zip(recordio.read(to / "train.rec"), listed, strict=True):
        found = recordio.image(record.payload)
        assert (found.id, found.label) == (int(number), float(label)) == (int(number), WNIDS.index(name[:9]))
        assert found.image == train[name]


def test_recordio_is_the_same_however_the_work_is_cut(folder, tmp_path, monkeypatch):
    magic = bytes.fromhex("0a23d7ce")
    train, validation, labels = images()
    for number, name in enumerate(sorted(train)):  # records that are cut, so that no offset can be known beforehand
        train[name] = picture(number)[:2] + b"\xff\xfe\0\x26" + b"xx" + magic * 8 + b"xx" + picture(number)[2:]
    put(folder, tars(train, validation, labels))
    prepare(folder, tmp_path / "whole")
    monkeypatch.setattr(imagenet.recordio, "BATCH", 700)
    monkeypatch.setattr(imagenet.recordio, "GROUP", 3000)
    monkeypatch.setattr(imagenet.recordio, "_PIECES", 5)
    prepare(folder, tmp_path / "cut", workers=5)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    assert {recordio.image(record.payload).image for record in recordio.read(tmp_path / "cut" / "train.rec")} == set(
        train.values()
    )


def test_tfrecord_labels_count_from_1_and_validation_keeps_its_order(folder, to):
    prepare(folder, to, "tfrecord", shards=SHARDS)
    records = [example.decode(data) for path in sorted(to.glob("val*")) for data in tfrecord.read(path)]
    _, validation, labels = images()
    assert [record["image/filename"][0].decode() for record in records] == list(validation)
    assert [record["image/class/label"][0] for record in records] == [WNIDS.index(wnid) + 1 for wnid in labels]


def test_webdataset_is_a_tar_for_every_reader(folder, to):
    prepare(folder, to, "webdataset", shards=SHARDS)
    train, _, _ = images()
    found = {}
    for path in sorted(to.glob("imagenet-train-*.tar")):
        with tarfile.open(path) as archive:
            found |= {member.name: archive.extractfile(member).read() for member in archive}
    keys = {name[10:-5]: (data, str(WNIDS.index(name[:9])).encode()) for name, data in train.items()}
    assert found == {f"{key}.jpg": data for key, (data, _) in keys.items()} | {
        f"{key}.cls": label for key, (_, label) in keys.items()
    }


def test_take_takes_of_each_class_in_both_splits(folder, to):
    counts = prepare(folder, to, take=1)
    assert (counts["train"], counts["val"], counts["train_per_class"]) == (3, 3, [1, 1])
    assert imagenet.invariants(to, "recordio", counts) == []


def test_png_and_cmyk_are_found_by_content_and_kept_or_converted(tmp_path):
    train, validation, labels = images()
    names = [f"{WNIDS[0]}/{WNIDS[0]}_3.JPEG", f"{WNIDS[2]}/{WNIDS[2]}_3.JPEG"]
    train |= {names[0]: png_file(), names[1]: cmyk_file()}
    folder = put(tmp_path / "source", tars(train, validation, labels))
    for layout in imagenet.LAYOUTS:
        to = tmp_path / layout
        counts = prepare(folder, to, layout, **params_of(layout))
        assert (counts["png"], counts["cmyk"]) == (names[:1], names[1:])
        assert imagenet.invariants(to, layout, counts) == []
        assert (imagenet.invariants(to, layout, counts | {"png": [], "cmyk": []}) == []) == (
            layout in ("tfrecord", "webdataset")
        ), "untouched layouts hold them, the others hold none"


def png_file() -> bytes:
    import png

    file = io.BytesIO()
    png.Writer(12, 9, greyscale=False).write(file, np.full((9, 36), 77, np.uint8))
    return file.getvalue()


def cmyk_file() -> bytes:
    """A CMYK JPEG with the marker of Adobe: the values are light, not ink, and stored as YCCK."""
    return simplejpeg.encode_jpeg(np.full((9, 12, 4), 200, np.uint8), 100, "CMYK")


def test_pixels_of_png_and_cmyk():
    assert jpeg.header(png_file()) == ("png", 9, 12)
    assert (jpeg.decode(png_file()) == 77).all()
    assert jpeg.header(cmyk_file()) == ("cmyk", 9, 12)
    assert (jpeg.decode(cmyk_file()) == 200 * 200 // 255).all()
    converted = jpeg.to_rgb(cmyk_file(), jpeg.header(cmyk_file()))
    assert jpeg.header(converted) == ("jpeg", 9, 12)
    assert abs(jpeg.decode(converted).astype(int) - 200 * 200 // 255).max() <= 1


def test_without_adobes_marker_the_values_are_ink():
    adobe = cmyk_file().index(b"\xff\xee")
    plain = cmyk_file()[:adobe] + cmyk_file()[adobe + 16 :]  # Y, Cb, Cr, K = 55, 128, 128, 200 are now C, M, Y, K
    assert (jpeg.decode(plain) == [200 * 55 // 255, 127 * 55 // 255, 127 * 55 // 255]).all()


# --- what may be wrong with images ---


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


BAD_IMAGES = {
    "cut": (cut(picture(3)), "Premature end of JPEG file"),
    "empty": (b"", "no JPEG: starts with nothing"),
    "error page": (b"<html>Not found</html>", "no JPEG: starts with 3c68746d6c3e4e6f"),
    "no frame": (b"\xff\xd8\xff\xd9", "no start-of-frame"),
    "all but the last byte": (picture(3)[:-1], "Premature end of JPEG file"),
}


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_images_that_do_not_decode_are_all_named_and_can_be_dropped(layout, tmp_path):
    train, validation, labels = images(per_class=6)
    bad = dict(zip(sorted(train), BAD_IMAGES.values(), strict=False))
    folder = put(tmp_path / "source", tars(train | {name: data for name, (data, _) in bad.items()}, validation, labels))
    to = tmp_path / "to"
    with pytest.raises(BadInput, match=f"{len(bad)} train images cannot be decoded") as error:
        prepare(folder, to, layout, **params_of(layout))
    for name, (_, reason) in bad.items():
        assert f"{name}: " in error.value.found
        assert reason in error.value.found
    counts = prepare(folder, to, layout, undecodable="drop", **params_of(layout))
    assert counts["train"] == len(train) - len(bad)
    assert sorted(counts["undecodable"]) == sorted(bad)
    assert imagenet.invariants(to, layout, counts) == []


def test_kept_images_are_packed_as_they_are_and_listed(tmp_path):
    train, validation, labels = images()
    name = next(iter(train))
    train[name] = cut(train[name])
    folder = put(tmp_path / "source", tars(train, validation, labels))
    for layout in ("recordio", "folder"):
        to = tmp_path / layout
        counts = prepare(folder, to, layout, undecodable="keep")
        assert (counts["train"], list(counts["undecodable"])) == (len(train), [name])
        assert any(train[name] in data for data in content(to).values())
        assert imagenet.invariants(to, layout, counts) == []
        assert len(imagenet.invariants(to, layout, counts | {"undecodable": {}})) == 1
    with pytest.raises(BadInput, match="parameter undecodable"):
        prepare(folder, tmp_path / "tfrecord", "tfrecord", undecodable="keep")


def test_an_image_with_something_behind_its_end_marker_is_good():
    assert jpeg.header(picture(3) + bytes(99)) == jpeg.header(picture(3))


def test_damage_inside_an_image_is_found_when_every_image_is_decoded(tmp_path):
    train, validation, labels = images()
    name = next(iter(train))
    middle = len(train[name]) - 60
    train[name] = train[name][:middle] + b"\xff" * 20 + train[name][middle + 20 :]
    folder = put(tmp_path / "source", tars(train, validation, labels))
    assert prepare(folder, tmp_path / "quick")["undecodable"] == {}
    with pytest.raises(BadInput, match="1 train images cannot be decoded") as error:
        prepare(folder, tmp_path / "full", decode=True)
    assert name in error.value.found


# --- what may be wrong with the files around them ---


def test_a_tar_cut_anywhere_is_refused(folder, to):
    path = folder / "ILSVRC2012_img_train.tar"
    whole = path.read_bytes()
    end = len(whole.rstrip(b"\0"))
    for size in [*range(1, end, end // 40), end]:
        path.write_bytes(whole[:size])
        with pytest.raises(BadInput, match=r"truncated tar|is no tar"):
            prepare(folder, to)
    assert not list(to.glob("*.rec"))


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "an HTML or XML page"),
        (b"\x1f\x8b\x08\0", "a gzip file"),
        (b"PK\3\4", "a zip file"),
        (b"", "nothing"),
    ],
)
def test_what_is_no_tar_is_named(folder, to, begin, kind):
    (folder / "ILSVRC2012_img_val.tar").write_bytes(begin)
    with pytest.raises(BadInput, match="is no tar") as error:
        prepare(folder, to)
    assert error.value.found.startswith(kind)


def test_a_damaged_header_inside_a_tar_is_refused(folder, to):
    path = folder / "ILSVRC2012_img_val.tar"
    whole = path.read_bytes()
    second = whole.index(b"ILSVRC2012_val", 512)
    path.write_bytes(whole[:second] + b"X" + whole[second + 1 :])
    with pytest.raises(BadInput, match=f"damaged at byte {second}"):
        prepare(folder, to)


def changed(change, tmp_path: Path) -> Path:
    """The source in class folders or tars after `change(train, validation, labels)`."""
    return put(tmp_path / "source", change(*images()))


def test_a_missing_class_is_named(tmp_path, to):
    def without(train, validation, labels):
        return tars({name: data for name, data in train.items() if WNIDS[1] not in name}, validation, labels)

    with pytest.raises(BadInput, match="different classes") as error:
        prepare(changed(without, tmp_path), to)
    assert error.value.found == f"1 only in validation ({WNIDS[1]})"


def test_validation_images_in_too_few_folders_are_refused(tmp_path, to):
    def one_folder(train, validation, labels):
        return class_folders(train, validation, [WNIDS[0]] * len(labels))

    with pytest.raises(BadInput, match="different classes") as error:
        prepare(changed(one_folder, tmp_path), to)
    assert error.value.found == f"2 only in training ({WNIDS[1]}, {WNIDS[2]})"


def test_50000_validation_images_are_50_a_class():
    places = [source.Image(f"n{number % 1000:08d}", f"{number}.JPEG", "", 0, 1) for number in range(50_000)]
    source.check_classes(places[:1000], places)
    moved = source.Image("n00000001", "0.JPEG", "", 0, 1)
    with pytest.raises(BadInput, match="validation labels are wrong") as error:
        source.check_classes(places[:1000], [moved, *places[1:]])
    assert error.value.found == "2 differ: n00000000 has 49, n00000001 has 51"


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        (lines(["n00000010"] * 5), "does not fit the validation images"),
        (lines(["n00000010"] * 7), "does not fit the validation images"),
        (b"2\n1\n3\n3\n2\n1\n", "not a list of wnids"),
        (b"<html>404 Not Found</html>", "not a list of wnids"),
        (b"", "does not fit the validation images"),
        (None, "no labels for 6 flat validation images"),
    ],
)
def test_labels_that_do_not_fit_are_refused(folder, to, labels, error):
    (folder / "synset_labels.txt").unlink()
    if labels is not None:
        (folder / "synset_labels.txt").write_bytes(labels)
    with pytest.raises(BadInput, match=error):
        prepare(folder, to)


def test_two_lists_of_labels_must_agree(folder, to):
    _, _, labels = images()
    (folder / "other_labels.txt").write_bytes(lines([labels[1], labels[0], *labels[2:]]))
    with pytest.raises(BadInput, match="disagree") as error:
        prepare(folder, to)
    assert error.value.found.endswith("2 images differ")


@pytest.mark.parametrize("damage", [lambda kit: kit[: len(kit) // 2], lambda kit: b"<html>" + kit[6:]])
def test_a_bad_development_kit_is_refused(tmp_path, to, damage):
    folder = changed(tars_with_devkit, tmp_path)
    kit = folder / "ILSVRC2012_devkit_t12.tar"
    kit.write_bytes(damage(kit.read_bytes().rstrip(b"\0")))
    with pytest.raises(BadInput, match="development kit cannot be read"):
        prepare(folder, to)


def test_names_that_occur_twice_are_refused(tmp_path, to):
    def twice(train, validation, labels):
        inner = class_tars(train)
        first = next(iter(train)).split("/")[1]
        members = tarred({first: picture(1)})[:1024] if len(picture(1)) <= 512 else tarred({first: picture(1)})
        blocks = len(members.rstrip(b"\0")) // 512 + 1
        inner[f"{WNIDS[0]}.tar"] = members[: blocks * 512] + inner[f"{WNIDS[0]}.tar"]
        return tars(train, validation, labels) | {"ILSVRC2012_img_train.tar": tarred(inner)}

    with pytest.raises(BadInput, match="images lie twice") as error:
        prepare(changed(twice, tmp_path), to)
    assert error.value.found == f"1: {WNIDS[0]}/{WNIDS[0]}_3.JPEG"


def test_an_image_in_the_folder_of_another_class_is_refused(tmp_path, to):
    def astray(train, validation, labels):
        return class_folders(train | {f"{WNIDS[1]}/{WNIDS[0]}_5.JPEG": picture(1)}, validation, labels)

    with pytest.raises(BadInput, match="in the folder of another class"):
        prepare(changed(astray, tmp_path), to)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda folder: [path.unlink() for path in folder.iterdir()], "training images cannot be found"),
        (lambda folder: (folder / "ILSVRC2012_img_val.tar").unlink(), "validation images cannot be found"),
        (lambda folder: (folder / "train").mkdir(), "training images cannot be found"),
        (lambda folder: (folder / "ILSVRC2012_img_train.tar").write_bytes(tarred({})), "no training images"),
    ],
)
def test_a_folder_without_both_splits_or_with_one_twice_is_refused(folder, to, spoil, error):
    spoil(folder)
    with pytest.raises(BadInput, match=error):
        prepare(folder, to)


def test_validation_half_in_folders_is_refused(tmp_path, to):
    def half(train, validation, labels):
        first = next(iter(validation))
        rest = {name: data for name, data in validation.items() if name != first}
        return below("train", train) | {f"val/{labels[0]}/{first}": validation[first]} | below("val", rest)

    with pytest.raises(BadInput, match="half in class folders"):
        prepare(changed(half, tmp_path), to)


def test_other_files_are_named_but_not_used(folder, to):
    folder = put(folder, {"train/.DS_Store": b"", **below("train", images()[0])})
    (folder / "ILSVRC2012_img_train.tar").unlink()
    put(folder / "train" / WNIDS[0], {"Thumbs.db": b""})
    assert prepare(folder, to)["ignored"] == [f"{WNIDS[0]}/Thumbs.db", "train/.DS_Store"]


def test_equal_names_in_two_classes_are_refused_where_they_are_keys(tmp_path, to):
    def same(train, validation, labels):
        return class_folders({f"{wnid}/1.JPEG": picture(1) for wnid in WNIDS}, validation, labels)

    folder = changed(same, tmp_path)
    prepare(folder, to)
    with pytest.raises(BadInput, match="have the same name"):
        prepare(folder, to, "webdataset", shards=SHARDS)


@pytest.mark.parametrize(
    "params",
    [
        {"shards": 4},
        {"shards": {"train": 4}},
        {"shards": {"train": 0, "validation": 1}},
        {"undecodable": "ignore"},
        {"decode": "yes"},
    ],
)
def test_parameters_that_mean_nothing_are_refused(folder, to, params):
    with pytest.raises(BadInput, match=f"parameter {next(iter(params))}"):
        prepare(folder, to, **params)


# --- interruptions ---


def test_a_full_disk_ends_all_workers_and_leaves_no_file(folder, to, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(imagenet.recordio, "BATCH", 700)
    monkeypatch.setattr(imagenet.recordio.os, "pwritev", full)
    with pytest.raises(BadEnvironment, match=r"cannot write .*train\.rec") as error:
        prepare(folder, to, workers=3)
    assert error.value.expected == "free space on the file system"
    assert list(content(to)) == [".notes/made_of"]


def test_finished_parts_are_kept_unless_the_images_are_others(folder, to, monkeypatch):
    monkeypatch.setattr(imagenet.parts, "forget", lambda to: None)

    def files_after(**params) -> dict[str, int]:
        prepare(folder, to, "tfrecord", **params)
        return {path.name: path.stat().st_mtime_ns for path in to.glob("*-of-*")}

    first = files_after(shards=SHARDS)
    assert files_after(shards=SHARDS) == first
    (to / "validation-00001-of-00002").unlink()
    again = files_after(shards=SHARDS)
    assert {name for name in again if again[name] != first[name]} == {"validation-00001-of-00002"}
    others = files_after(shards={"train": 2, "validation": 1})
    assert sorted(others) == ["train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"]


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_nothing_of_another_source_is_left(layout, folder, tmp_path, monkeypatch):
    params = params_of(layout)
    with monkeypatch.context() as patch:
        patch.setattr(imagenet.parts, "forget", lambda to: None)
        prepare(folder, tmp_path / "to", layout, **params)
    train, validation, labels = images(per_class=3)
    train["n00000010/n00000010_3.JPEG"] += bytes(7)
    put(folder, tars(train, validation, labels))
    prepare(folder, tmp_path / "to", layout, **params)
    prepare(folder, tmp_path / "fresh", layout, **params)
    assert content(tmp_path / "to") == content(tmp_path / "fresh")


def test_a_class_folder_that_a_power_cut_emptied_is_made_again(folder, to, monkeypatch):
    monkeypatch.setattr(imagenet.parts, "forget", lambda to: None)
    prepare(folder, to, "folder")
    victim = to / "train" / WNIDS[0] / f"{WNIDS[0]}_3.JPEG"
    whole = victim.read_bytes()
    victim.write_bytes(b"")
    prepare(folder, to, "folder")
    assert victim.read_bytes() == whole


# --- what verify finds ---


def spoiled(path: Path, old: bytes, new: bytes) -> None:
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))


def test_verify_names_everything_that_is_wrong_in_recordio(folder, to):
    counts = prepare(folder, to)
    first = (to / "train.lst").read_text().split("\t")[0]
    spoiled(to / "train.idx", f"{first}\t0\n".encode(), f"{first}\t4\n".encode())
    spoiled(to / "val.lst", b"\t2.000000\t", b"\t1.000000\t")
    spoiled(to / "val.rec", b"\xff\xd8\xff", b"\xff\xd8\x00")
    problems = imagenet.invariants(to, "recordio", counts | {"train": 13})
    assert f"train.idx: expected {first} at byte 0, found {first} at byte 4" in problems
    assert "train: expected 13 images, found 12 images" in problems
    assert any("id 3, label 1, found id 3, label 2" in problem or "label 1, found" in problem for problem in problems)


def test_verify_goes_on_when_a_file_is_damaged(folder, to):
    counts = prepare(folder, to)
    rec = (to / "train.rec").read_bytes()
    (to / "train.rec").write_bytes(rec[:-1])
    (to / "val.idx").unlink()
    problems = imagenet.invariants(to, "recordio", counts)
    assert any("train.rec: damaged at byte" in problem for problem in problems)
    assert "train: expected 12 images, found 11 images" in problems
    assert "val.idx: expected a file, found none" in problems


def test_verify_finds_damaged_missing_and_unmixed_records(folder, to):
    counts = prepare(folder, to, "tfrecord", shards=SHARDS)
    shards = sorted(to.glob("train-*"))
    spoiled(shards[0], b"\xff\xd8", b"\xff\xd7")
    shards[2].unlink()
    problems = imagenet.invariants(to, "tfrecord", counts)
    assert any(problem.startswith("train-00000-of-00004 at byte 0: expected data that fits") for problem in problems)
    assert any(problem.startswith("train-00002-of-00003: expected one of 3 shards") for problem in problems)
    assert "train: expected 12 images, found 8 images" in problems


@pytest.mark.parametrize(("layout", "labels"), [("recordio", "0 … 1"), ("tfrecord", "1 … 2"), ("webdataset", "0 … 1")])
def test_verify_holds_labels_to_their_base(folder, to, layout, labels):
    counts = prepare(folder, to, layout, **params_of(layout))
    problems = imagenet.invariants(to, layout, counts | {"classes": 2})
    assert sum(f"expected a label in {labels}" in problem for problem in problems) == 4 + 2
    assert "train: expected 2 classes, found 3 classes" in problems


def test_verify_finds_labels_that_were_not_shuffled():
    def problems(labels: list[int]) -> list[str]:
        split = checks.Split("train", {}, 0, False, labels=labels)
        split.mixed()
        return split.problems

    ordered = [label for label in range(10) for _ in range(100)]
    shuffled = ordered[:]
    random.Random(0).shuffle(shuffled)
    assert problems(shuffled) == problems([7] * 5) == []
    assert problems(ordered) == ["train: expected shuffled labels, at most 12 equal ones in a row, found 100 in a row"]


def test_verify_finds_an_image_that_was_replaced_in_a_folder(folder, to):
    counts = prepare(folder, to, "folder")
    (to / "val" / WNIDS[0] / "ILSVRC2012_val_00000002.JPEG").write_bytes(b"<html>")
    shutil.rmtree(to / "train" / WNIDS[2])
    problems = imagenet.invariants(to, "folder", counts)
    assert any("ILSVRC2012_val_00000002.JPEG: expected an image that decodes" in problem for problem in problems)
    assert "train: expected 3 classes, found 2 classes" in problems


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_verify_counts_bytes_classes_and_shards(layout, folder, to):
    counts = prepare(folder, to, layout, **params_of(layout))
    problems = imagenet.invariants(
        to, layout, counts | {"image_bytes": counts["image_bytes"] + 1, "val_per_class": [1, 2]}
    )
    assert problems == [
        "val per class: expected [1, 2], found [2, 2]",
        f"images: expected {counts['image_bytes'] + 1} bytes, found {counts['image_bytes']}",
    ]


def test_verify_finds_shards_that_are_uneven():
    split = checks.Split("train", {"train": 5, "classes": 1, "undecodable": {}, "train_per_class": [5, 5]}, 0, False)
    split.labels, split.shards = [0] * 5, [2, 1, 2]
    assert split.finish() == ["train per shard: expected [2, 2, 1], found [2, 1, 2]"]


# --- the sample ---


@pytest.mark.skipif(not SHARED.exists(), reason=f"no sample files at {SHARED}")
@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_the_sample_of_odd_files_can_be_prepared(layout, tmp_path):
    sample.make(SHARED, tmp_path / "source")
    counts = prepare(tmp_path / "source", tmp_path / "to", layout, **params_of(layout))
    assert (counts["train"], counts["val"], counts["form"]) == (11, 6, "tars")
    assert (counts["png"], counts["cmyk"]) == (["n90000003/n90000003_1.JPEG"], ["n90000003/n90000003_0.JPEG"])
    assert imagenet.invariants(tmp_path / "to", layout, counts) == []


@pytest.mark.skipif(not SHARED.exists(), reason=f"no sample files at {SHARED}")
def test_the_truncated_sample_file_is_refused():
    with pytest.raises(jpeg.Undecodable, match="Premature end"):
        jpeg.header((SHARED / "jpeg_odd" / "truncated_jpeg.jpg").read_bytes())


def test_a_sample_folder_that_lacks_files_is_refused(tmp_path):
    with pytest.raises(BadInput, match="sample files are missing"):
        sample.make(tmp_path, tmp_path / "to")


def test_every_class_gets_the_same_share_of_a_shard_order():
    """The shuffle mixes: no shard of the full set's proportions holds one class alone."""
    places = [source.Image(wnid, f"{wnid}_{i}.JPEG", "", 0, 1) for wnid in WNIDS for i in range(100)]
    order = imagenet.tfrecord.order(source.Source("tars", places, places[:3], []))["train"]
    for shard in imagenet.tfrecord.shards(order, "train", 10).values():
        assert len(Counter(image.wnid for image in shard)) == len(WNIDS)


# --- made again ---


def again(folder: Path, to: Path, layout: str, counts: dict, **params) -> Again:
    content = manifest.Manifest((), counts, params)
    return imagenet.rederive(Sample(folder, to, layout, content, random.Random(0), share=1.0))


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
def test_every_image_made_again_is_that_of_the_layout(layout, form, tmp_path):
    train, validation, labels = images()
    train |= {f"{WNIDS[0]}/{WNIDS[0]}_3.JPEG": png_file(), f"{WNIDS[2]}/{WNIDS[2]}_3.JPEG": cmyk_file()}
    folder, params = put(tmp_path / "source", form(train, validation, labels)), params_of(layout)
    counts = prepare(folder, tmp_path / "to", layout, **params)
    assert again(folder, tmp_path / "to", layout, counts, **params) == Again(18, [])
    counts = prepare(folder, tmp_path / "some", layout, take=1, **params)
    assert again(folder, tmp_path / "some", layout, counts, take=1, **params) == Again(6, [])


@pytest.mark.parametrize("layout", imagenet.LAYOUTS)
def test_another_image_or_label_in_the_source_is_found(layout, folder, to, tmp_path):
    params = params_of(layout)
    counts = prepare(folder, to, layout, **params)
    train, validation, labels = images()
    name, other = sorted(train)[5], sorted(train)[6]
    labels[0], labels[1] = labels[1], labels[0]
    source = put(tmp_path / "other", tars(train | {name: train[other]}, validation, labels))
    problems = again(source, to, layout, counts, **params).problems
    stem = Path(name).stem
    assert f"train {stem}: expected the content of {name} in the source, found another" in problems
    assert "val ILSVRC2012_val_00000001: expected label 0 (n00000010), found 1" in problems
    assert "val ILSVRC2012_val_00000002: expected label 1 (n00000020), found 0" in problems
    assert all("in its place" in problem for problem in problems[3:])


@pytest.mark.parametrize("layout", ["recordio", "tfrecord", "webdataset"])
def test_another_order_is_found(layout, folder, to, monkeypatch):
    monkeypatch.setattr(imagenet.recordio, "SEED", 1)
    monkeypatch.setattr(imagenet.tfrecord, "SEED", 1)
    params = params_of(layout)
    counts = prepare(folder, to, layout, **params)
    problems = again(folder, to, layout, counts, **params).problems
    assert len(problems) > 6
    assert all("in its place, found" in problem for problem in problems)
