"""ResNet: the network, LARS, the schedule, RecordIO, pictures, and what a run says about wrong input.

Needs the implementations' requirements (containers/common/requirements.txt) beside pytest.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import struct
import sys
import tarfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")
simplejpeg = pytest.importorskip("simplejpeg")

FOLDER = Path(__file__).parents[2] / "containers" / "resnet"
GOLDENS = Path(__file__).parents[2].parent / "shared" / "data" / "goldens" / "imagenet"
MAGIC = struct.pack("<I", 0xCED7230A)


@pytest.fixture(scope="module")
def resnet():
    """The modules of containers/resnet, under their own names only while these tests run: all four have a `model`."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    before = {name: sys.modules.pop(name, None) for name in [*names, "common", "common.contract", "common.log"]}
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


# The network


def test_the_default_network_has_the_parameters_of_the_reference(resnet):
    assert sum(parameter.numel() for parameter in resnet.model.ResNet().parameters()) == 25_557_032


def test_strided_windows_are_padded_as_tensorflow_does(resnet):
    even, odd = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 5, 5)
    assert resnet.model.pad_same(even, 3, 2)[0, 0].sum(dim=0).tolist() == [4, 4, 4, 4, 0]  # nothing before, one after
    assert resnet.model.pad_same(odd, 3, 2)[0, 0].sum(dim=0).tolist() == [0, 5, 5, 5, 5, 5, 0]


def test_convolutions_are_cut_at_two_sigma_and_have_he_variance(resnet):
    torch.manual_seed(1)
    weight = resnet.model.ResNet(blocks=(1, 1), width=32, classes=8).stages[1].conv2.weight
    he = (2 / (64 * 9)) ** 0.5
    assert weight.std().item() == pytest.approx(he, rel=0.02)
    assert weight.abs().max().item() <= 2 * he / 0.87962566


# LARS, SGD, the learning rate


class Toy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(3)
        self.dense = torch.nn.Linear(3, 2)


def steps_of(resnet, name: str, gradients: list[dict[str, np.ndarray]], rates: list[float]) -> tuple[dict, dict]:
    """A toy's parameters before and after some steps with the given gradients, in float64 for comparison."""
    torch.manual_seed(2)
    toy = Toy().double()
    toy.conv.weight.data[:, :, 0] = 0  # not all alike
    before = {label: parameter.detach().numpy().copy() for label, parameter in toy.named_parameters()}
    groups = resnet.optim.groups(name, toy, decay=0.01)
    for gradient, rate in zip(gradients, rates, strict=True):
        for label, parameter in toy.named_parameters():
            parameter.grad = torch.from_numpy(gradient[label].copy())
        resnet.optim.step(groups, rate, momentum=0.9)
    return before, {label: parameter.detach().numpy() for label, parameter in toy.named_parameters()}


@pytest.fixture
def gradients() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)
    shapes = {label: parameter.shape for label, parameter in Toy().named_parameters()}
    return [{label: random.normal(size=shape) for label, shape in shapes.items()} for _ in range(3)]


@pytest.mark.parametrize("name", ["lars", "sgd"])
def test_updates_follow_the_formula_of_the_reference(resnet, gradients, name):
    rates = [0.5, 2.0, 1.0]
    before, after = steps_of(resnet, name, gradients, rates)
    for label, weight in before.items():
        velocity = np.zeros_like(weight)
        for gradient, rate in zip(gradients, rates, strict=True):
            g, ratio = gradient[label], 1.0
            if name == "lars" and label in ("conv.weight", "dense.weight"):
                norm = np.sqrt((weight**2).sum())
                ratio = 0.001 * norm / (np.sqrt((g**2).sum()) + 0.01 * norm + 1e-7)
                g = g + 0.01 * weight
            elif name == "sgd" and not label.startswith("norm"):
                g = g + 2 * 0.01 * weight
            velocity = 0.9 * velocity - rate * ratio * g
            weight = weight + velocity
        np.testing.assert_allclose(after[label], weight, rtol=1e-9, atol=1e-12, err_msg=label)


def test_lars_takes_the_plain_rate_where_a_norm_is_zero(resnet):
    weight, momentum = torch.zeros(2, 2), torch.zeros(2, 2)
    weight.grad = torch.ones(2, 2)
    resnet.optim.lars([weight], [momentum], lr=0.5, momentum=0.9, decay=0.01)
    assert weight.tolist() == [[-0.5, -0.5], [-0.5, -0.5]]


def test_the_default_schedule_is_that_of_the_convergence_points_at_1632(resnet):
    settings = resnet.train.Settings()
    rate = functools.partial(resnet.train.learning_rate, settings)
    assert settings.steps_per_epoch == 785
    assert settings.decay_steps == 785 * 37 - 2 * 785 + 1
    assert [rate(0), rate(785), rate(1570)] == [0, 3.7, 7.4]
    assert rate(1570 + 27476 // 2) == pytest.approx(7.4 / 4, rel=1e-4)
    assert rate(1570 + 27476) == rate(40_000) == 1e-4


def test_a_schedule_without_warmup_begins_at_the_base_rate(resnet):
    assert resnet.optim.polynomial(0, base=2.0, warmup=0, decay=10, end=1e-4) == 2.0


def test_evaluations_follow_the_first_epoch_and_every_fourth(resnet):
    blocks = [(block[0], len(block)) for block in resnet.train.blocks(resnet.train.Settings())]
    assert blocks == [(1, 1), *((first, 4) for first in range(2, 37, 4))]


def test_accumulated_gradients_are_those_of_the_whole_batch(resnet):
    pictures, labels = torch.rand(8, 3, 4, 4, generator=torch.manual_seed(10)), torch.tensor([0, 1] * 4)
    results = []
    for accumulate in (1, 2):
        torch.manual_seed(11)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
        settings = resnet.train.Settings(
            train_samples=8, global_batch_size=4, gradient_accumulation_steps=accumulate, warmup_epochs=0
        )
        batches = zip(pictures.split(settings.batch_size), labels.split(settings.batch_size), strict=True)
        loss = resnet.train.train(model, resnet.optim.groups("lars", model, 0.01), batches, settings, epoch=1)
        results.append([loss, *model[1].weight.flatten().tolist(), *model[1].bias.tolist()])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4)


# RecordIO


def part(flag: int, content: bytes) -> bytes:
    return MAGIC + struct.pack("<I", flag << 29 | len(content)) + content + bytes(-len(content) % 4)


@pytest.mark.parametrize(
    ("raw", "payload"),
    [
        (part(0, b"12345"), b"12345"),
        (part(0, b""), b""),
        (part(0, b"x" + MAGIC), b"x" + MAGIC),  # not at a multiple of 4: stays inside
        (part(1, b"1234") + part(3, b"56"), b"1234" + MAGIC + b"56"),
        (part(1, b"") + part(2, b"abcd") + part(2, b"") + part(3, b""), MAGIC + b"abcd" + MAGIC + MAGIC),
    ],
)
def test_a_record_is_joined_where_the_magic_was_cut_out(resnet, raw, payload):
    assert resnet.data.join_parts(raw) == payload


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"abcd" + part(0, b"1234"),
        part(0, b"12345678")[:-4],  # cut short
        part(0, b"1234") + part(0, b"1234"),  # two records
        part(1, b"1234"),  # the last part is missing
        part(3, b"1234"),  # the first part is missing
        part(1, b"1234") + part(0, b"1234"),
    ],
)
def test_what_is_not_one_whole_record_is_refused(resnet, raw):
    with pytest.raises(ValueError, match="record"):
        resnet.data.join_parts(raw)


def write_split(folder: Path, split: str, pictures: list[bytes], classes: int = 2) -> None:
    """A RecordIO file and its index, with labels 0, 1, ... in turn."""
    offset, lines = 0, []
    with (folder / f"{split}.rec").open("wb") as file:
        for number, picture in enumerate(pictures):
            lines.append(f"{number}\t{offset}\n")
            offset += file.write(part(0, struct.pack("<IfQQ", 0, number % classes, number, 0) + picture))
    (folder / f"{split}.idx").write_text("".join(lines))


def jpegs(count: int) -> list[bytes]:
    """Pictures of 20 x 24 pixels, dark and light in turn."""
    random = np.random.default_rng(4)
    levels = [60 if number % 2 == 0 else 180 for number in range(count)]
    pixels = [random.integers(level, level + 40, size=(20, 24, 3), dtype=np.uint8) for level in levels]
    return [simplejpeg.encode_jpeg(picture, quality=95, colorspace="RGB") for picture in pixels]


def test_records_give_pictures_and_labels_at_random(resnet, tmp_path):
    write_split(tmp_path, "val", jpegs(5))
    records = resnet.data.Records(tmp_path, "val")
    assert len(records) == 5
    assert [records[position][1] for position in (4, 1, 0)] == [0, 1, 0]
    picture, _ = records[3]
    assert picture.shape == (20, 24, 3) and picture.dtype == np.uint8 and 190 < picture.mean() < 210


# Pictures


def png_of(pixels: np.ndarray, colour: int, filters: list[int], palette: bytes = b"") -> bytes:
    """A PNG of (height, width, channels) uint8 samples, one filter type a row; after RFC 2083, pixel by pixel."""

    def at(y: int, x: int, channel: int) -> int:
        return int(pixels[y, x, channel]) if y >= 0 and x >= 0 else 0

    def prediction(kind: int, left: int, up: int, corner: int) -> int:
        nearest = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
        return [0, left, up, (left + up) // 2, nearest][kind]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, channels = pixels.shape
    raw = bytearray()
    for y in range(height):
        raw.append(filters[y])
        for x in range(width):
            for c in range(channels):
                guess = prediction(filters[y], at(y, x - 1, c), at(y - 1, x, c), at(y - 1, x - 1, c))
                raw.append((at(y, x, c) - guess) % 256)
    header, body = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0), zlib.compress(bytes(raw))
    chunks = chunk(b"IHDR", header) + (chunk(b"PLTE", palette) if palette else b"")
    chunks += chunk(b"IDAT", body[:20]) + chunk(b"IDAT", body[20:]) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_a_png_with_every_filter_is_decoded(resnet, colour, channels):
    pixels = np.random.default_rng(5).integers(0, 256, size=(10, 7, channels), dtype=np.uint8)
    decoded = resnet.data.decode(png_of(pixels, colour, filters=[4, 3, 2, 1, 0, 1, 2, 3, 4, 4]))
    expected = pixels[:, :, :3] if channels >= 3 else pixels[:, :, [0, 0, 0]]
    np.testing.assert_array_equal(decoded, expected)


def test_a_png_with_a_palette_is_decoded(resnet):
    indices, palette = np.array([[[1], [0]], [[2], [2]]], np.uint8), bytes(range(9))
    decoded = resnet.data.decode(png_of(indices, 3, [0, 1], palette))
    assert decoded.tolist() == [[[3, 4, 5], [0, 1, 2]], [[6, 7, 8], [6, 7, 8]]]


@pytest.mark.parametrize(("name", "mean", "most"), [("n02105855_2933.JPEG", 0, 0), ("n03018349_4028.JPEG", 1.5, 24)])
def test_imagenets_png_and_cmyk_files_look_like_the_references(resnet, name, mean, most):
    """The oracle is TensorFlow's re-encoding, JPEG of quality 100 with half the colour; its CMYK formula is its own."""
    if not GOLDENS.is_dir():
        pytest.skip("the goldens are not beside this checkout")
    with tarfile.open(GOLDENS / "train.tar") as outer:
        inner = io.BytesIO(outer.extractfile(f"{name.partition('_')[0]}.tar").read())
    with tarfile.open(fileobj=inner) as tar:
        picture = np.ascontiguousarray(resnet.data.decode(tar.extractfile(name).read()))
    found = simplejpeg.encode_jpeg(picture, quality=100, colorspace="RGB", colorsubsampling="420")
    expected = (GOLDENS / "expected" / f"{name}.reencoded.jpg").read_bytes()
    difference = abs(resnet.data.decode(found).astype(int) - resnet.data.decode(expected))
    assert difference.mean() <= mean and difference.max() <= most


def test_what_is_no_picture_is_refused(resnet):
    for content in (b"", b"GIF89a", png_of(np.zeros((2, 2, 3), np.uint8), 2, [0, 0])[:30]):
        with pytest.raises(ValueError):
            resnet.data.decode(content)


def bilinear(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """One output pixel at a time, at input coordinates i * scale."""
    out = np.empty((height, width, 3))
    for i in range(height):
        for j in range(width):
            y, x = i * picture.shape[0] / height, j * picture.shape[1] / width
            top, left = int(y), int(x)
            bottom, right = min(top + 1, picture.shape[0] - 1), min(left + 1, picture.shape[1] - 1)
            upper = picture[top, left] * (1 - x % 1) + picture[top, right] * (x % 1)
            lower = picture[bottom, left] * (1 - x % 1) + picture[bottom, right] * (x % 1)
            out[i, j] = upper * (1 - y % 1) + lower * (y % 1)
    return out


def test_evaluation_takes_the_middle_of_the_resized_picture(resnet):
    picture = np.random.default_rng(6).integers(0, 256, size=(13, 22, 3), dtype=np.uint8)
    found = resnet.data.eval_picture(picture, size=8, short_side=10)
    expected = bilinear(picture, 10, 16)[1:9, 4:12]  # 22 * 10 / 13 = 16.9
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_training_windows_keep_their_bounds_and_vary(resnet):
    random = np.random.default_rng(7)
    areas = []
    for _ in range(500):
        window = resnet.data.random_window(60, 90, 0.1, random)
        assert 0 <= window.top <= 60 - window.height and 0 <= window.left <= 90 - window.width
        assert 0.7 < window.width / window.height < 1.4
        areas.append(window.height * window.width / (60 * 90))
    assert 0.09 < min(areas) < 0.12 and max(areas) > 0.8


def test_a_picture_too_narrow_for_any_window_is_taken_whole(resnet):
    window = resnet.data.random_window(2, 100, 0.1, np.random.default_rng(8))
    assert (window.top, window.left, window.height, window.width) == (0, 0, 2, 100)


def test_training_pictures_are_mirrored_half_of_the_time(resnet):
    ramp = np.tile(np.arange(0, 240, 8, dtype=np.uint8)[None, :, None], (30, 1, 3))
    random = np.random.default_rng(9)
    rising = [np.diff(resnet.data.train_picture(ramp, 16, 0.5, random)[0, :, 0]).mean() > 0 for _ in range(200)]
    assert 70 < sum(rising) < 130


def test_an_epoch_shows_each_picture_once_in_an_order_of_its_own(resnet):
    orders = [resnet.data.order(50, seed, epoch).tolist() for seed, epoch in ((1, 1), (1, 1), (1, 2), (2, 1))]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert orders[0] == orders[1] and orders[0] != orders[2] and orders[0] != orders[3]


# Runs


@pytest.fixture
def run(resnet, tmp_path, monkeypatch):
    """Train on 24 small pictures with some settings changed; returns the exit status and the records of the log."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    write_split(data_dir, "train", jpegs(16))
    write_split(data_dir, "val", jpegs(8))
    environment = {
        **{"DATADIR": data_dir, "LOGDIR": tmp_path / "logs", "SEED": 7, "DGXNNODES": 1, "DGXNGPU": 0},
        **{"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"},
        **{"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"},
        **{"BLOCKS": "1,1", "WIDTH": 4, "CLASSES": 2, "TRAIN_SAMPLES": 16, "EVAL_SAMPLES": 8, "IMAGE_SIZE": 16},
        **{"SHORT_SIDE": 18, "GLOBAL_BATCH_SIZE": 8, "GRADIENT_ACCUMULATION_STEPS": 2, "MAX_EPOCHS": 3},
        **{"FIRST_EVAL": 1, "EVAL_EVERY": 2, "TARGET": 1.1},
    }

    def start(**changes: object) -> tuple[int, list[dict]]:
        for name, value in {**environment, **changes}.items():
            monkeypatch.setenv(name, str(value))
        status = 0
        try:
            resnet.train.main()
        except SystemExit as exit:
            status = exit.code
        log = tmp_path / "logs" / "mllog.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        return status, [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]

    start.data_dir = data_dir
    return start


def test_a_run_logs_what_the_rules_ask_for_in_their_order(run):
    status, log = run(TARGET=0)
    keys = [record["key"] for record in log]
    assert status == 0
    submission = [f"submission_{key}" for key in ("benchmark", "org", "division", "status", "platform")]
    assert keys[:7] == ["init_start", *submission, "seed"]
    assert keys[keys.index("init_stop") :] == [
        *("init_stop", "run_start", "train_samples", "eval_samples", "block_start", "epoch_start", "epoch_stop"),
        *("eval_start", "eval_accuracy", "eval_stop", "block_stop", "run_stop"),
    ]
    values = {record["key"]: record["value"] for record in log}
    assert (values["train_samples"], values["eval_samples"], values["seed"]) == (16, 8, 7)
    assert (values["global_batch_size"], values["gradient_accumulation_steps"], values["model_bn_span"]) == (8, 2, 4)
    assert (values["opt_name"], values["lars_epsilon"]) == ("lars", 0.0)
    assert log[-1]["metadata"]["status"] == "success"


def test_a_run_that_misses_its_target_ends_aborted_after_the_last_epoch(run, capsys):
    status, log = run()
    evaluated = [record["metadata"]["epoch_num"] for record in log if record["key"] == "eval_accuracy"]
    assert (status, evaluated, log[-1]["metadata"]["status"]) == (1, [1, 3], "aborted")
    assert "after 3 epochs: the target 1.1 was not met" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_the_run(run, capsys):
    status, log = run(OPTIMIZER="sgd", BASE_LR=1e30, WARMUP_EPOCHS=0, MAX_EPOCHS=9)
    assert (status, log[-1]["key"], log[-1]["metadata"]["status"]) == (1, "run_stop", "aborted")
    assert "the loss is nan in epoch" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_run(run):
    accuracies = [[r["value"] for r in run(EVAL_EVERY=1)[1] if r["key"] == "eval_accuracy"] for _ in range(2)]
    assert accuracies[1] == accuracies[0] * 2  # the second log holds both runs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"GLOBAL_BATCH_SIZE": 32}, "GLOBAL_BATCH_SIZE=32: expected 1..16 (TRAIN_SAMPLES)"),
        ({"GRADIENT_ACCUMULATION_STEPS": 3}, "a multiple of GRADIENT_ACCUMULATION_STEPS=3"),
        ({"GRADIENT_ACCUMULATION_STEPS": 0}, "GRADIENT_ACCUMULATION_STEPS=0: expected at least 1"),
        ({"OPTIMIZER": "adam"}, "OPTIMIZER=adam: expected lars or sgd"),
        ({"IMAGE_SIZE": 20}, "IMAGE_SIZE=20: expected 1..18 (SHORT_SIDE)"),
        ({"FIRST_EVAL": 4}, "FIRST_EVAL=4: expected 1..3 (MAX_EPOCHS)"),
        ({"WIDTH": "wide"}, "WIDTH=wide"),
        ({"DATADIR": "/nowhere"}, "/nowhere"),
        ({"DGXNGPU": 2}, "DGXNGPU=2: this implementation trains on one device"),
    ],
)
def test_wrong_settings_end_the_process_before_anything_is_logged(run, capsys, changes, message):
    assert run(**changes) == (2, [])
    assert message in capsys.readouterr().err


def break_index(folder: Path) -> None:
    (folder / "train.idx").write_text("0 0\n")


def break_offsets(folder: Path) -> None:
    path = folder / "val.idx"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def break_record(folder: Path) -> None:
    path = folder / "train.rec"
    path.write_bytes(b"wrong" + path.read_bytes()[5:])


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda folder: (folder / "val.idx").unlink(), "val.idx is missing: DATADIR must hold the layout recordio"),
        (lambda folder: write_split(folder, "train", jpegs(15)), "expected TRAIN_SAMPLES=16 pictures, found 15"),
        (lambda folder: write_split(folder, "val", [b"GIF89a"] * 8), "val.rec, record at byte 0"),
        (break_index, "train.idx: expected a line `key<tab>offset`"),
        (break_offsets, "its offsets do not fit"),
        (break_record, "train.rec, record at byte 0: expected RecordIO's magic at byte 0"),
    ],
)
def test_wrong_data_ends_the_run_aborted_with_status_2(run, capsys, breakage, message):
    breakage(run.data_dir)
    status, log = run()
    assert (status, log[-1]["key"], log[-1]["metadata"]["status"]) == (2, "run_stop", "aborted")
    assert message in capsys.readouterr().err
