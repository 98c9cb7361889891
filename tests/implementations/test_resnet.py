"""ResNet: the network, LARS, the schedule, RecordIO, pictures, processes, and what a run says about wrong input.

Needs the implementations' requirements (containers/common/requirements.txt) beside pytest.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from implementations.implementation import CONTAINERS, config, convergence_points, modules, processes, records

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")
simplejpeg = pytest.importorskip("simplejpeg")

FOLDER = CONTAINERS / "resnet"
GOLDENS = Path(__file__).parents[2].parent / "shared" / "data" / "goldens" / "imagenet"
MAGIC = struct.pack("<I", 0xCED7230A)


@pytest.fixture(scope="module")
def resnet():
    with modules(FOLDER) as loaded:
        yield loaded


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


def numpy_resnet(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """ResNet v1.5 with one bottleneck per stage in training, from its published description; (N, H, W, C)."""

    def windows(x, kernel, stride):  # "same": (N, H, W, C, kernel, kernel)
        pads = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[1:3]]
        x = np.pad(x, [(0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)])
        return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))[:, ::stride, ::stride]

    def conv(x, name, stride=1):
        weight = weights[f"{name}.weight"]
        return np.einsum("nhwcij,ocij->nhwo", windows(x, weight.shape[-1], stride), weight)

    def norm(x, name):
        x = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-5)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    # The first convolution's padding is written out in the reference: 3 on every side.
    x = np.pad(x, [(0, 0), (3, 3), (3, 3), (0, 0)])
    stem = np.lib.stride_tricks.sliding_window_view(x, (7, 7), (1, 2))[:, ::2, ::2]
    x = np.maximum(norm(np.einsum("nhwcij,ocij->nhwo", stem, weights["conv1.weight"]), "bn1"), 0)
    x = windows(x, 3, 2).max((4, 5))  # zeros as padding do no harm after ReLU
    for stage in range(2):
        at, stride = f"stages.{stage}", 1 + stage
        shortcut = norm(conv(x[:, ::stride, ::stride], f"{at}.shortcut"), f"{at}.bn_shortcut")
        x = np.maximum(norm(conv(x, f"{at}.conv1"), f"{at}.bn1"), 0)
        x = np.maximum(norm(conv(x, f"{at}.conv2", stride), f"{at}.bn2"), 0)
        x = np.maximum(norm(conv(x, f"{at}.conv3"), f"{at}.bn3") + shortcut, 0)
    return x.mean((1, 2)) @ weights["dense.weight"].T + weights["dense.bias"]


def numpy_loss(weights: dict[str, np.ndarray], x: np.ndarray, labels: np.ndarray) -> float:
    """Cross-entropy with a tenth of the probability spread over all classes."""
    logits = numpy_resnet(weights, x)
    wanted = 0.9 * np.eye(logits.shape[1])[labels] + 0.1 / logits.shape[1]
    chance = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return -(wanted * np.log(chance)).sum(1).mean()


def test_forward_loss_and_gradient_are_those_of_the_formulas(resnet):
    torch.manual_seed(12)
    random = np.random.default_rng(12)
    model = resnet.model.ResNet(blocks=(1, 1), width=4, classes=5).double()
    pictures, labels = random.normal(size=(3, 37, 46, 3)), np.array([0, 4, 2])
    weights = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    logits = model(torch.from_numpy(pictures).permute(0, 3, 1, 2))
    np.testing.assert_allclose(logits.detach().numpy(), numpy_resnet(weights, pictures), rtol=1e-9)

    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), label_smoothing=0.1)
    assert loss.item() == pytest.approx(numpy_loss(weights, pictures, labels), rel=1e-12)
    loss.backward()
    way = {name: random.normal(size=weight.shape) for name, weight in weights.items()}
    slope = sum((parameter.grad.numpy() * way[name]).sum() for name, parameter in model.named_parameters())
    there, back = (
        numpy_loss({name: weights[name] + step * way[name] for name in weights}, pictures, labels)
        for step in (1e-7, -1e-7)
    )
    assert slope == pytest.approx((there - back) / 2e-7, rel=1e-6)


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
    expected = bilinear(picture, 10, 16)[1:9, 4:12].transpose(2, 0, 1)  # 22 * 10 / 13 = 16.9
    assert found.dtype == np.uint8
    np.testing.assert_allclose(found, expected, atol=1)  # half a level of rounding, half of fixed-point weights


@pytest.mark.parametrize(("rows", "columns"), [(9, 14), (30, 21), (1, 5)])
def test_resizing_up_and_down_is_tensorflows(resnet, rows, columns):
    picture = np.random.default_rng(13).integers(0, 256, size=(rows, columns, 3), dtype=np.uint8)
    error = resnet.data.resize(picture, 12, 16) - bilinear(picture, 12, 16).transpose(2, 0, 1)
    assert abs(error).max() <= 1 and abs(error).mean() < 0.4


def tensorflow_window(height: int, width: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """`sample_distorted_bounding_box` in whole numbers, after the comments in its source: height, width, top, left."""
    for _ in range(100):
        ratio = random.uniform(0.75, 1.33)
        low = round(np.sqrt(0.05 * height * width / ratio))
        high = round(np.sqrt(height * width / ratio))
        if round(high * ratio) > width:
            high = int((width + 0.5 - 1e-7) / ratio)
        high = min(high, height)
        tall = int(random.integers(low, high + 1)) if low < high else high
        wide = round(tall * ratio)
        if wide <= width and tall * wide >= 0.1 * height * width:
            return tall, wide, int(random.integers(max(height - tall, 1))), int(random.integers(max(width - wide, 1)))
    return height, width, 0, 0


@pytest.mark.parametrize("size", [(60, 90), (375, 500), (500, 333)])
def test_training_windows_have_the_distribution_of_tensorflows(resnet, size):
    from scipy.stats import ks_2samp

    random = np.random.default_rng(7)
    ours = [resnet.data.random_window(*size, 0.05, random) for _ in range(4000)]
    ours = np.array([(window.height, window.width, window.top, window.left) for window in ours])
    theirs = np.array([tensorflow_window(*size, random) for _ in range(4000)])
    assert (ours[:, 0] + ours[:, 2] <= size[0]).all() and (ours[:, 1] + ours[:, 3] <= size[1]).all()
    for values in (lambda w: w[:, 0] * w[:, 1], lambda w: w[:, 1] / w[:, 0], lambda w: w[:, 2], lambda w: w[:, 3]):
        assert ks_2samp(values(ours), values(theirs)).pvalue > 1e-3


def test_a_picture_too_narrow_for_any_window_is_taken_whole(resnet):
    window = resnet.data.random_window(2, 100, 0.1, np.random.default_rng(8))
    assert (window.top, window.left, window.height, window.width) == (0, 0, 2, 100)


def test_training_pictures_are_mirrored_half_of_the_time(resnet):
    ramp = np.tile(np.arange(0, 240, 8, dtype=np.uint8)[None, :, None], (30, 1, 3))
    random = np.random.default_rng(9)
    rows = [resnet.data.train_picture(ramp, 16, 0.5, random)[0, 0].astype(int) for _ in range(200)]
    rising = [row[-1] > row[0] for row in rows]
    assert 70 < sum(rising) < 130


def test_an_epoch_shows_each_picture_once_in_an_order_of_its_own(resnet):
    orders = [resnet.data.order(50, seed, epoch).tolist() for seed, epoch in ((1, 1), (1, 1), (1, 2), (2, 1))]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert orders[0] == orders[1] and orders[0] != orders[2] and orders[0] != orders[3]


# Shares of the processes


class Numbers:
    """Stands in for `Records`: picture n is grey n, its label is n."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> tuple[np.ndarray, int]:
        return np.full((6, 6, 3), position, np.uint8), int(position)


def labels_of(parts, numbers) -> list[list[int]]:
    return [parts[number][1].tolist() for number in numbers]


def test_processes_share_an_epoch_and_each_global_batch_is_that_of_one_process(resnet):
    def parts(rank, size, accumulate):
        share = resnet.data.Share(part=3, rank=rank, size=size)
        return resnet.data.TrainParts(Numbers(26), share, 2, accumulate, size=4, min_area=0.05, seed=5)

    for epoch in (0, 1):
        alone = labels_of(parts(0, 1, 4), range(8 * epoch, 8 * epoch + 8))
        together = [labels_of(parts(rank, 2, 2), range(4 * epoch, 4 * epoch + 4)) for rank in range(2)]
        assert [part for pair in zip(*together, strict=True) for part in pair] == alone
        seen = sum(alone, [])
        assert len(seen) == len(set(seen)) == 24  # of 26, as two do not make a batch
        assert seen == resnet.data.order(26, 5, epoch + 1)[:24].tolist()


def test_crops_depend_on_the_place_in_the_order_only(resnet):
    class Ramp(Numbers):
        def __getitem__(self, position):
            return np.arange(40 * 40 * 3).reshape(40, 40, 3).astype(np.uint8), 0

    def pictures(part, rank, size, accumulate, numbers):
        share = resnet.data.Share(part, rank, size)
        parts = resnet.data.TrainParts(Ramp(8), share, 1, accumulate, size=8, min_area=0.05, seed=5)
        return torch.cat([parts[number][0] for number in numbers])

    alone = pictures(4, 0, 1, 2, [0, 1])
    assert torch.equal(alone, torch.cat([pictures(4, rank, 2, 1, [0]) for rank in range(2)]))
    assert torch.equal(alone, pictures(8, 0, 1, 1, [0]))
    assert not torch.equal(alone, pictures(4, 0, 1, 2, [2, 3]))  # another epoch


def test_every_evaluation_picture_belongs_to_one_process_once(resnet):
    shares = [resnet.data.EvalParts(Numbers(11), resnet.data.Share(2, rank, 3), 4, 5) for rank in range(3)]
    parts = [labels_of(share, range(len(share))) for share in shares]
    assert {len(part) for rank in parts for part in rank} == {2}  # of one size, filled up
    labels = [label for rank in parts for part in rank for label in part if label != resnet.data.NOBODY]
    assert sorted(labels) == list(range(11))


TWO_EPOCHS = """
import json, torch, train
from common.contract import read_contract, read_settings
from common.distributed import join, leave
torch.set_default_dtype(torch.float64)
contract, settings = read_contract(), read_settings(train.Settings)
world = join(contract)
trainer = train.Trainer(contract, settings, world)
for layer in trainer.network.modules():
    if isinstance(layer, torch.nn.BatchNorm2d):
        layer.momentum = None  # the mean of all statistics, which does not depend on their order
trainer.open_data()
losses = [trainer.train(1), trainer.train(2)]
answer = {"losses": losses, "accuracy": trainer.evaluate()}
parameters = [parameter.flatten() for parameter in trainer.network.parameters()]
statistics = [buffer.flatten() for buffer in trainer.network.buffers() if buffer.is_floating_point()]
answer |= {"weights": torch.cat(parameters).tolist(), "statistics": torch.cat(statistics).tolist()}
if world.rank == 0:
    print(json.dumps(answer))
leave(world)
"""


def test_two_processes_train_as_one_does(environment):
    write_split(environment["DATADIR"], "val", jpegs(7))  # so that the shares differ
    environment |= {"EVAL_SAMPLES": 7, "BASE_LR": 0.5, "WARMUP_EPOCHS": 0}
    one = processes(1, FOLDER, environment | {"GRADIENT_ACCUMULATION_STEPS": 4}, TWO_EPOCHS)
    two = processes(2, FOLDER, environment | {"GRADIENT_ACCUMULATION_STEPS": 2, "WORKERS": 1}, TWO_EPOCHS)
    assert one["losses"][0] != pytest.approx(one["losses"][1], rel=1e-3)
    assert two["accuracy"] == one["accuracy"]
    for name in ("losses", "weights", "statistics"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, atol=1e-12, err_msg=name)


# Configs


@pytest.mark.parametrize("name", ["1xH200", "8xH100", "8xH200", "8xA100", "multi-node"])
def test_configs_take_their_values_from_a_convergence_point_and_fit_their_gpus(resnet, monkeypatch, name):
    variables = config(FOLDER / "configs" / f"{name}.env")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    settings = resnet.common.contract.read_settings(resnet.train.Settings)
    world = resnet.common.distributed.World(size=int(variables["DGXNNODES"]) * int(variables["DGXNGPU"]))
    resnet.train.check(settings, world)
    logged = resnet.train.hyperparameters(settings, world)
    for ruleset in ("3.1.0", "4.0.0"):
        point = convergence_points("resnet", ruleset)[settings.global_batch_size]
        assert (point.pop("optimizer"), point.pop("model_bn_span")) == (logged["opt_name"], logged["model_bn_span"])
        assert {key: logged[f"lars_{key}"] for key in point} == point
    last = [block[-1] for block in resnet.train.blocks(settings)][-1]
    assert last == settings.max_epochs  # no epoch is trained that nobody evaluates
    end = (settings.decay_steps - 1) / settings.steps_per_epoch + settings.warmup_epochs
    assert end == pytest.approx(last, abs=0.2)  # the learning rate comes down in the last epoch


# Runs


@pytest.fixture
def environment(tmp_path) -> dict[str, object]:
    """A run on 24 small pictures that misses its target."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_split(folder, "train", jpegs(16))
    write_split(folder, "val", jpegs(8))
    return {
        **{"DATADIR": folder, "LOGDIR": tmp_path / "logs", "SEED": 7, "DGXNNODES": 1, "DGXNGPU": 0},
        **{"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"},
        **{"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"},
        **{"BLOCKS": "1,1", "WIDTH": 4, "CLASSES": 2, "TRAIN_SAMPLES": 16, "EVAL_SAMPLES": 8, "IMAGE_SIZE": 16},
        **{"SHORT_SIDE": 18, "GLOBAL_BATCH_SIZE": 8, "GRADIENT_ACCUMULATION_STEPS": 2, "MAX_EPOCHS": 3},
        **{"FIRST_EVAL": 1, "EVAL_EVERY": 2, "TARGET": 1.1, "OMP_NUM_THREADS": 1, "CLEAR_CACHE": "data"},
    }


@pytest.fixture
def run(resnet, environment, monkeypatch):
    """Train with some settings changed; returns the exit status and the records of the log."""

    def start(**changes: object) -> tuple[int, list[dict]]:
        for name, value in {**environment, **changes}.items():
            monkeypatch.setenv(name, str(value))
        status = 0
        try:
            resnet.train.main()
        except SystemExit as exit:
            status = exit.code
        return status, records(environment["LOGDIR"])

    start.data_dir = environment["DATADIR"]
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


def test_a_run_does_not_import_the_compiler(environment):  # it would cost each run more than a second
    code = "import sys, train; train.main(); print(int('torch._dynamo' in sys.modules))"
    assert processes(1, FOLDER, environment | {"TARGET": 0}, code) == 0


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
        (
            {"GRADIENT_ACCUMULATION_STEPS": 3},
            "GRADIENT_ACCUMULATION_STEPS=3 times 1, the number of processes",
        ),
        ({"GRADIENT_ACCUMULATION_STEPS": 0}, "GRADIENT_ACCUMULATION_STEPS=0: expected at least 1"),
        ({"OPTIMIZER": "adam"}, "OPTIMIZER=adam: expected lars or sgd"),
        ({"IMAGE_SIZE": 20}, "IMAGE_SIZE=20: expected 1..18 (SHORT_SIDE)"),
        ({"FIRST_EVAL": 4}, "FIRST_EVAL=4: expected 1..3 (MAX_EPOCHS)"),
        ({"WIDTH": "wide"}, "WIDTH=wide"),
        ({"DATADIR": "/nowhere"}, "/nowhere"),
        ({"DGXNGPU": 2}, "DGXNGPU=2: expected 2 processes, found 1"),
        ({"WORKERS": -1}, "WORKERS=-1: expected 0 or more"),
        ({"MLPERF_DIVISION": "closed"}, "MLPERF_DIVISION=closed: expected BLOCKS=3,4,6,3, found 1,1"),
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


def test_a_record_that_a_loader_cannot_read_ends_the_run_aborted_and_is_named(environment):
    write_split(environment["DATADIR"], "train", [*jpegs(15), b"GIF89a"])
    text = os.environ | {name: str(value) for name, value in (environment | {"WORKERS": 2}).items()}
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=FOLDER, env=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "train.rec, record at byte" in done.stderr
    assert records(environment["LOGDIR"])[-1]["metadata"]["status"] == "aborted"


def test_sigterm_ends_a_run_with_loaders_aborted_and_without_half_a_line(environment):
    environment |= {"WORKERS": 1, "MAX_EPOCHS": 100_000, "FIRST_EVAL": 100_000}
    text = os.environ | {name: str(value) for name, value in environment.items()}
    run = subprocess.Popen([sys.executable, "train.py"], cwd=FOLDER, env=text, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 120
        while len(records(environment["LOGDIR"])) < 30 and time.monotonic() < end:
            time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 128 + signal.SIGTERM
    finally:
        run.kill()
    log = records(environment["LOGDIR"])
    assert (log[-1]["key"], log[-1]["metadata"]["status"]) == ("run_stop", "aborted")


# What only a GPU does, with a GPU's part played


def test_warming_up_leaves_everything_as_it_was(resnet, environment, monkeypatch):
    trainer, same = (build(resnet, environment, monkeypatch) for _ in range(2))
    trainer.warm_up()
    for value, before in zip(trainer.network.state_dict().values(), same.network.state_dict().values(), strict=True):
        assert torch.equal(value, before)
    assert all(not momentum.any() for group in trainer.groups for momentum in group.momenta)
    assert all(parameter.grad is None for parameter in trainer.network.parameters())


def test_a_gpu_that_is_too_small_is_told_the_memory_it_needs(resnet, environment, monkeypatch, capsys):
    def full(*arguments):
        raise torch.OutOfMemoryError

    trainer = build(resnet, environment, monkeypatch)
    monkeypatch.setattr(trainer, "backward", full)
    monkeypatch.setattr(resnet.common.memory, "of_device", lambda device: "it has 0.0 GiB")
    with pytest.raises(SystemExit) as end:
        trainer.warm_up()
    assert end.value.code == 3
    said = "4 pictures at once need about 0.0 GiB, it has 0.0 GiB: raise GRADIENT_ACCUMULATION_STEPS=2"
    assert said in capsys.readouterr().err


def test_bfloat16_gives_nearly_the_same_loss_and_gradients_in_full_precision(resnet, environment, monkeypatch):
    pictures, labels = torch.randint(256, (4, 3, 16, 16), dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    losses = []
    for changes in ({}, {"BF16": 1}):
        trainer = build(resnet, environment | changes, monkeypatch)
        losses.append(trainer.backward(pictures, labels, last=True).item())
        assert all(parameter.grad.dtype == torch.float32 for parameter in trainer.network.parameters())
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=0.03)


def build(resnet, environment, monkeypatch):
    """A trainer for one process as `main` makes it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    settings = resnet.common.contract.read_settings(resnet.train.Settings)
    return resnet.train.Trainer(resnet.common.contract.read_contract(), settings, resnet.common.distributed.World())
