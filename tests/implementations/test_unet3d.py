"""3D U-Net: the network, loss, SGD, crops and the sliding window against independent formulas, processes, whole runs.

Needs the implementations' requirements (containers/common/requirements.txt) beside pytest.
"""

from __future__ import annotations

import csv
import functools
import itertools
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from implementations.implementation import (
    CONTAINERS,
    accepted,
    config,
    convergence_points,
    modules,
    processes,
    records,
)

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")

FOLDER = CONTAINERS / "unet3d"
CASES_TABLE = Path(__file__).parents[2].parent / "shared" / "data" / "kits19_cases.csv"


@pytest.fixture(scope="module")
def unet3d():
    with modules(FOLDER) as loaded:
        yield loaded


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# The network


def test_the_default_network_has_the_parameters_of_the_reference(unet3d):
    with torch.device("meta"):
        model = unet3d.model.UNet3D()
    assert sum(parameter.numel() for parameter in model.parameters()) == 31_190_243


def test_the_network_halves_once_per_filter_and_gives_logits_of_the_input_size(unet3d):
    model = unet3d.model.UNet3D((4, 8))
    shapes = []
    for down in model.down:
        down.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape[1:])))
    assert model(torch.zeros(2, 1, 8, 16, 12)).shape == (2, 3, 8, 16, 12)
    assert shapes == [(8, 4, 8, 6), (8, 2, 4, 3)]


def numpy_unet(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The U-Net with two filter sizes on one image (1, D, H, W), from its published description."""
    from scipy.signal import correlate

    def block(x, name, stride=1):
        kernels = weights[f"{name}.0.weight"]
        padded = np.pad(x, [(0, 0)] + [(1, 1)] * 3)
        x = np.stack([sum(map(functools.partial(correlate, mode="valid"), padded, kernel)) for kernel in kernels])
        x = x[:, ::stride, ::stride, ::stride]
        mean, variance = x.mean((1, 2, 3), keepdims=True), x.var((1, 2, 3), keepdims=True)
        scale, shift = (weights[f"{name}.1.{part}"][:, None, None, None] for part in ("weight", "bias"))
        return np.maximum((x - mean) / np.sqrt(variance + 1e-5) * scale + shift, 0)

    def double(x, name):
        x = np.einsum("cdhw,coijk->odihjwk", x, weights[f"{name}.weight"])  # each voxel becomes 2 x 2 x 2
        depth, height, width = (2 * size for size in x.shape[1::2])
        return x.reshape(len(x), depth, height, width) + weights[f"{name}.bias"][:, None, None, None]

    x = block(block(x, "input.0"), "input.1")
    skips = []
    for level in range(2):
        skips.append(x)
        x = block(block(x, f"down.{level}.0", stride=2), f"down.{level}.1")
    for level in range(2):
        x = np.concatenate([double(x, f"up.{level}.up"), skips.pop()])
        x = block(block(x, f"up.{level}.convs.0"), f"up.{level}.convs.1")
    x = np.einsum("cdhw,oc->odhw", x, weights["head.weight"][:, :, 0, 0, 0])
    return x + weights["head.bias"][:, None, None, None]


def numpy_loss(logits: np.ndarray, label: np.ndarray) -> float:
    """(cross-entropy + 1 - soft dice of kidney and tumour) / 2 of logits (N, 3, D, H, W) and labels (N, D, H, W)."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    t = np.stack([label == kind for kind in range(3)], axis=1)
    dice = [
        (2 * (p[n, c] * t[n, c]).sum() + 1e-6) / (p[n, c].sum() + t[n, c].sum() + 1e-6)
        for n in range(len(label))
        for c in (1, 2)
    ]
    return (-np.log(p[t.nonzero()]).mean() + 1 - np.mean(dice)) / 2


def test_forward_loss_and_gradient_are_those_of_the_formulas(unet3d, rng):
    torch.manual_seed(3)
    model = unet3d.model.UNet3D((2, 3)).double()
    image, label = rng.normal(size=(1, 1, 8, 16, 12)), rng.integers(0, 3, (1, 8, 16, 12))
    weights = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    logits = model(torch.from_numpy(image))
    np.testing.assert_allclose(logits[0].detach().numpy(), numpy_unet(weights, image[0]), rtol=1e-9)

    loss = unet3d.loss.dice_ce_loss(logits, torch.from_numpy(label.astype(np.uint8)))
    assert loss.item() == pytest.approx(numpy_loss(logits.detach().numpy(), label), rel=1e-6)
    loss.backward()
    way = {name: rng.normal(size=weight.shape) for name, weight in weights.items()}
    slope = sum((parameter.grad.numpy() * way[name]).sum() for name, parameter in model.named_parameters())
    there, back = (
        numpy_loss(numpy_unet({name: weights[name] + step * way[name] for name in weights}, image[0])[None], label)
        for step in (1e-7, -1e-7)
    )
    assert slope == pytest.approx((there - back) / 2e-7, rel=1e-5)


# Loss and quality


def test_the_loss_is_the_mean_of_cross_entropy_and_soft_dice_loss(unet3d, rng):
    logits, label = rng.normal(size=(2, 3, 3, 4, 5)), rng.integers(0, 3, (2, 3, 4, 5))
    loss = unet3d.loss.dice_ce_loss(torch.from_numpy(logits), torch.from_numpy(label.astype(np.uint8)))
    assert loss.item() == pytest.approx(numpy_loss(logits, label), rel=1e-6)


def test_the_score_counts_voxels_and_an_absent_class_that_nobody_predicts_is_perfect(unet3d):
    label = torch.tensor([0, 1, 1, 1, 0, 0], dtype=torch.uint8).reshape(1, 1, 6)
    prediction = torch.tensor([0, 1, 1, 0, 1, 0]).reshape(1, 1, 6)
    logits = torch.nn.functional.one_hot(prediction, 3).movedim(-1, 0).float()
    kidney, tumour = unet3d.loss.dice_score(logits, label).tolist()
    assert kidney == pytest.approx(2 * 2 / (3 + 3))
    assert tumour == 1
    assert unet3d.loss.dice_score(logits, torch.full_like(label, 2)).tolist() == pytest.approx([0, 0], abs=1e-6)


# Optimiser


def test_sgd_is_nesterovs_with_weight_decay(unet3d, rng):
    start, gradients = rng.normal(size=5), rng.normal(size=(4, 5))
    weight, velocity = torch.from_numpy(start.copy()), torch.zeros(5, dtype=torch.float64)
    expected, v = start.copy(), np.zeros(5)
    for gradient in gradients:
        unet3d.optim.sgd_step([weight], [torch.from_numpy(gradient)], [velocity], 0.3, 0.9, 0.01)
        g = gradient + 0.01 * expected
        v = 0.9 * v + g
        expected = expected - 0.3 * (g + 0.9 * v)
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-12)


def test_the_rate_warms_up_by_epoch_then_stays_or_falls_at_the_boundaries(unet3d):
    def rate(epoch, *decay):
        return unet3d.optim.learning_rate(epoch, 2.0, 1e-4, 1000, *decay)

    assert rate(1) == pytest.approx(1e-4 + (2 - 1e-4) / 1000)
    assert rate(500) == pytest.approx((2 + 1e-4) / 2)
    assert rate(1000) == rate(9999) == 2.0
    decay = ((2000, 3000), 0.1)
    assert [rate(epoch, *decay) for epoch in (2000, 2001, 3001)] == pytest.approx([2, 0.2, 0.02])
    assert unet3d.optim.learning_rate(1, 0.8, 1e-4, 0) == 0.8


# Sliding window


@pytest.mark.parametrize(
    ("size", "cut", "pad"),
    [
        (128, (0, 0), (0, 0)),
        (159, (15, 16), (0, 0)),  # a rest of 31 is cut off, the odd voxel behind
        (160, (0, 0), (16, 16)),  # a rest of 32 is padded
        (191, (0, 0), (0, 1)),
        (192, (0, 0), (0, 0)),
        (70, (3, 3), (32, 32)),  # padded to one window at least
        (100, (0, 0), (14, 14)),
    ],
)
def test_an_axis_is_cut_or_padded_to_whole_strides(unet3d, size, cut, pad):
    assert unet3d.window.fit(size, 128, 64) == unet3d.window.Fit(cut, pad)


def test_the_weight_is_the_references(unet3d):
    from scipy.signal.windows import gaussian

    axis = gaussian(16, 2)
    expected = np.cbrt(np.einsum("i,j,k->ijk", axis, axis, axis))
    np.testing.assert_allclose(unet3d.window.gaussian((16, 16, 16)).numpy(), expected / expected.max(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(16, 16, 16), (17, 23, 29), (20, 31, 16)])
def test_a_network_that_copies_its_input_gets_the_kept_part_back(unet3d, rng, shape):
    image, label = torch.from_numpy(rng.normal(size=(1, *shape)).astype(np.float32)), torch.arange(math.prod(shape))
    axes = [unet3d.window.fit(size, 16, 8) for size in shape]
    kept = (0, *(slice(axis.cut[0], size - axis.cut[1]) for axis, size in zip(axes, shape, strict=True)))

    def copy(windows):
        return windows.expand(-1, 3, -1, -1, -1)

    for batch in (1, 3):
        logits, part = unet3d.window.predict(copy, image, label.reshape(1, *shape), (16, 16, 16), 0.5, batch)
        torch.testing.assert_close(logits, image[kept].expand(3, -1, -1, -1))
        torch.testing.assert_close(part[0], label.reshape(1, *shape)[kept])


def test_a_constant_field_stays_constant(unet3d):
    def constant(windows):
        return torch.tensor([1.0, -2.0, 3.0]).view(1, 3, 1, 1, 1).expand(len(windows), 3, *windows.shape[2:])

    image = torch.zeros(1, 19, 30, 21)
    logits, _ = unet3d.window.predict(constant, image, image, (16, 16, 16), 0.5, 4)
    for value, field in zip((1.0, -2.0, 3.0), logits, strict=True):
        torch.testing.assert_close(field, torch.full_like(field, value))


@pytest.mark.skipif(not CASES_TABLE.exists(), reason="the table of the real cases is not beside this checkout")
def test_the_42_real_cases_take_2636_windows(unet3d):
    with CASES_TABLE.open() as file:
        shapes = [[int(row[f"out_{axis}"]) for axis in "dhw"] for row in csv.DictReader(file) if row["split"] == "eval"]
    windows = [unet3d.window.count(shape, (128, 128, 128), 0.5) for shape in shapes]
    assert (len(shapes), sum(windows)) == (42, 2636)
    for size in (1, 8, 16, 56):
        dealt = unet3d.window.shares(windows, size)
        assert sorted(sum(dealt, [])) == list(range(42))
        most = max(sum(windows[volume] for volume in share) for share in dealt)
        assert most <= max(max(windows), 1.07 * 2636 / size)  # nobody waits long for the slowest


def test_batches_of_windows_may_be_filled_up(unet3d, rng):
    sizes = []

    def network(windows):
        sizes.append(len(windows))
        return windows.expand(-1, 3, -1, -1, -1)

    image = torch.from_numpy(rng.normal(size=(1, 20, 31, 16)).astype(np.float32))
    plain, _ = unet3d.window.predict(network, image, image, (16, 16, 16), 0.5, 4)
    sizes.clear()
    filled, _ = unet3d.window.predict(unet3d.window.filled(network, 4), image, image, (16, 16, 16), 0.5, 4)
    assert torch.equal(filled, plain)
    assert set(sizes) == {4}


# Crops and augmentation


def case_with(unet3d, *boxes, size=(40, 40, 40)):
    """A case whose image holds 100 z + y + x / 100 and whose label is 1 in each of `boxes`."""
    z, y, x = np.indices(size, dtype=np.float32)
    label = np.zeros((1, *size), np.uint8)
    for box in boxes:
        label[(0, *(slice(*axis) for axis in box))] = 1
    return unet3d.data.Case("case_00000", (100 * z + y + x / 100)[None], label)


def corner(image):
    """Where a crop of `case_with` begins."""
    first = float(image[0, 0, 0, 0])
    return int(first // 100), int(first % 100), round(first % 1 * 100)


def test_a_foreground_crop_holds_a_whole_component_of_the_two_with_the_largest_boxes(unet3d, rng):
    large, middle, small = ((2, 9), (20, 28), (30, 39)), ((20, 26), (1, 7), (1, 7)), ((36, 38), (36, 38), (2, 4))
    case = case_with(unet3d, large, middle, small)
    held = set()
    for _ in range(200):
        image, label = unet3d.data.crop(case, (16, 16, 16), 1.0, rng)
        assert image.shape == label.shape == (1, 16, 16, 16)
        begin = corner(image)
        inside = [
            box
            for box in (large, middle)
            if all(low <= axis[0] and axis[1] <= low + 16 for low, axis in zip(begin, box, strict=True))
        ]
        assert inside
        held.update(inside)
    assert held == {large, middle}


def test_a_component_larger_than_the_window_gives_a_window_inside_it(unet3d, rng):
    case = case_with(unet3d, ((3, 33), (5, 35), (7, 37)))
    for _ in range(50):
        assert unet3d.data.crop(case, (16, 16, 16), 1.0, rng)[1].all()


def test_components_that_touch_at_an_edge_only_are_two(unet3d):
    case = case_with(unet3d, ((0, 4), (0, 4), (0, 4)), ((4, 8), (4, 8), (0, 4)))
    assert len(case.foreground[1]) == 2


def test_crops_fall_everywhere_in_the_volume_but_the_references_last_place(unet3d, rng):
    case = case_with(unet3d, size=(18, 16, 20))
    begins = {corner(unet3d.data.crop(case, (16, 16, 16), 0.4, rng)[0]) for _ in range(300)}
    assert begins == set(itertools.product(range(2), [0], range(4)))


def test_augmentation_flips_both_alike_and_leaves_the_source_alone(unet3d, rng):
    image = np.arange(1, 28, dtype=np.float32).reshape(1, 3, 3, 3)
    label, before = image.astype(np.uint8), image.copy()
    flips, factors, noises = 0, [], 0
    for _ in range(3000):
        new, flipped = unet3d.data.augment(image, label, rng)
        assert new.dtype == np.float32
        flips += flipped[0, 0, 0, 0] > 9  # the first axis is turned
        ratio = new / flipped
        if ratio.std() > 1e-5:
            noises += 1
        else:
            factors.append(ratio.mean())
    assert np.array_equal(image, before)
    assert flips / 3000 == pytest.approx(1 / 3, abs=0.03)
    assert noises / 3000 == pytest.approx(0.1, abs=0.02)
    bright = [factor for factor in factors if factor > 1.01]
    assert len(bright) / len(factors) == pytest.approx(0.1, abs=0.02)
    assert (min(bright), max(bright)) == pytest.approx((1.7, 2.3), abs=0.03)  # the reference's 1 + U(0.7, 1.3)


def test_foreground_is_what_a_search_of_the_whole_volume_finds(unet3d, rng):
    from scipy import ndimage

    label = (rng.random((1, 20, 24, 28)) < 0.02).astype(np.uint8) * rng.integers(1, 3, (1, 20, 24, 28)).astype(np.uint8)
    label = ndimage.grey_dilation(label, (1, 3, 3, 3))
    label[:, :6], label[:, :, 20:] = 0, 0
    found = unet3d.data.Case("case_00000", label.astype(np.float32), label).foreground
    for kind in (1, 2):
        boxes = ndimage.find_objects(ndimage.label(label[0] == kind)[0])
        volumes = sorted(math.prod(axis.stop - axis.start for axis in box) for box in boxes)
        assert all(box in boxes for box in found[kind])
        assert [math.prod(axis.stop - axis.start for axis in box) for box in found[kind]] == volumes[-2:]


def numbered_cases(unet3d, count):
    """Case n has label n everywhere, and an image of noise."""
    noise = np.random.default_rng(1).normal(size=(1, 20, 20, 20)).astype(np.float32)
    return [
        unet3d.data.Case(f"case_{number:05d}", noise, np.full(noise.shape, number, np.uint8)) for number in range(count)
    ]


def parts_of(unet3d, part, rank=0, size=1, accumulate=1, seed=3):
    cases, steps = numbered_cases(unet3d, 9), 8 // (part * size * accumulate)
    return unet3d.data.TrainParts(cases, part, rank, size, steps, accumulate, (16, 16, 16), 0.4, seed)


def test_an_epoch_has_every_case_once_without_the_incomplete_batch_and_a_new_order(unet3d):
    def order(seed, epoch):
        parts = parts_of(unet3d, 2, seed=seed)
        return [int(number) for index in range(4) for number in parts[4 * epoch + index][1][:, 0, 0, 0]]

    first = order(3, 0)
    assert len(first) == len(set(first)) == 8  # of 9
    assert order(3, 0) == first
    assert len({tuple(order(3, epoch)) for epoch in range(10)}) > 5


def test_processes_share_an_epoch_and_see_what_one_process_sees(unet3d):
    alone = parts_of(unet3d, 2)
    shares = [parts_of(unet3d, 1, rank, 2, accumulate=2) for rank in range(2)]
    for epoch in (0, 1):
        whole = [torch.cat(kind) for kind in zip(*(alone[4 * epoch + index] for index in range(4)), strict=True)]
        dealt = [shares[index % 2][4 * epoch + index // 2] for index in range(8)]
        for one, two in zip(whole, (torch.cat(kind) for kind in zip(*dealt, strict=True)), strict=True):
            assert torch.equal(one, two)


TWO_EPOCHS = """
import json, torch, train
from common.contract import read_contract, read_settings
from common.distributed import join, leave
torch.set_default_dtype(torch.float64)
contract, settings = read_contract(), read_settings(train.Settings)
world = join(contract)
trainer = train.Trainer(contract, settings, world)
trainer.open_data()
losses = [trainer.train(1), trainer.train(2)]
weights = torch.cat([parameter.flatten() for parameter in trainer.network.parameters()])
answer = {"losses": losses, "dice": trainer.evaluate(), "weights": weights.tolist()}
shares = world.gather(trainer.eval_share())
if world.rank == 0:
    print(json.dumps(answer | {"shares": shares}))
leave(world)
"""


def test_two_processes_train_as_one_does(contract, dataset):
    (dataset / "evaluation_cases.txt").write_text("00003\n00000\n00001\n")
    contract |= {"EVAL_SAMPLES": "3", "WARMUP_EPOCHS": "0", "BASE_LEARNING_RATE": "0.1"}
    one = processes(1, FOLDER, contract | {"GRADIENT_ACCUMULATION_STEPS": "2"}, TWO_EPOCHS)
    two = processes(2, FOLDER, contract | {"GRADIENT_ACCUMULATION_STEPS": "1", "WORKERS": "1"}, TWO_EPOCHS)
    assert one["losses"][0] != pytest.approx(one["losses"][1], rel=1e-3)
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-9)
    np.testing.assert_allclose(two["weights"], one["weights"], rtol=1e-7, atol=1e-9)
    assert two["dice"] == pytest.approx(one["dice"], rel=1e-9)
    assert one["shares"] == [[0, 1, 2]]
    assert sorted(sum(two["shares"], [])) == [0, 1, 2] and all(two["shares"])


# Configs


@pytest.mark.parametrize("name", ["1xH200", "8xH100", "8xH200", "8xA100", "multi-node"])
def test_configs_take_their_values_from_a_convergence_point_and_fit_their_gpus(unet3d, monkeypatch, name):
    variables = config(FOLDER / "configs" / f"{name}.env")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    settings = unet3d.common.contract.read_settings(unet3d.train.Settings)
    unet3d.train.check(
        settings, unet3d.common.distributed.World(size=int(variables["DGXNNODES"]) * int(variables["DGXNGPU"]))
    )
    assert 168 % settings.global_batch_size == 0  # so that all agree on what an epoch is
    logged = unet3d.train.hyperparameters(settings)
    for ruleset, unit in (("3.1.0", 1), ("4.0.0", 168)):  # the points of 4.0 count the warm-up in samples
        point = convergence_points("unet3d", ruleset)[settings.global_batch_size]
        assert point.pop("opt_learning_rate_warmup_epochs") == unit * logged["opt_learning_rate_warmup_epochs"]
        assert {key: logged[key] for key in point} == point


# Whole runs

SHAPES = [(16, 18, 24), (17, 16, 16), (16, 16, 16), (19, 20, 16)]


@pytest.fixture
def dataset(tmp_path, rng):
    """Three cases to train on and one to evaluate, as `podium prepare kits19 --layout npy` leaves them."""
    folder = tmp_path / "npy"
    folder.mkdir()
    for number, shape in enumerate(SHAPES):
        label = rng.integers(0, 3, (1, *shape)).astype(np.uint8)
        np.save(folder / f"case_{number:05d}_x.npy", label + rng.normal(size=label.shape).astype(np.float32))
        np.save(folder / f"case_{number:05d}_y.npy", label)
    (folder / "train_cases.txt").write_text("00000\n00001\n00002\n")
    (folder / "evaluation_cases.txt").write_text("00003\n")
    return folder


@pytest.fixture
def contract(dataset, tmp_path):
    """The environment of a run that is small and meets its target at once."""
    return {
        "DATADIR": str(dataset),
        "LOGDIR": str(tmp_path / "log"),
        "SEED": "5",
        "MLPERF_SUBMISSION_ORG": "tests",
        "MLPERF_SUBMISSION_PLATFORM": "host",
        "MLPERF_DIVISION": "open",
        "MLPERF_STATUS": "research",
        "OMP_NUM_THREADS": "1",
        "CLEAR_CACHE": "data",
        "FILTERS": "2,2",
        "TRAIN_SAMPLES": "3",
        "EVAL_SAMPLES": "1",
        "TRAINING_INPUT_SHAPE": "16,16,16",
        "VALIDATION_INPUT_SHAPE": "16,16,16",
        "FIRST_EVAL": "2",
        "EVAL_EVERY": "1",
        "MAX_EPOCHS": "4",
        "TARGET": "0.01",
    }


def mllog(contract):
    """(key, value, metadata) of each line that the run wrote."""
    return [(record["key"], record["value"], record["metadata"]) for record in records(Path(contract["LOGDIR"]))]


def run(unet3d, monkeypatch, contract, **changes):
    """The run in this process; returns its exit status."""
    for name, value in (contract | changes).items():
        monkeypatch.setenv(name, value)
    try:
        unet3d.train.main()
    except SystemExit as end:
        return end.code
    return 0


def test_a_run_logs_what_the_rules_ask_for_in_their_order(contract):
    environment = os.environ | contract | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([FOLDER / "run_and_time.sh"], env=environment, check=True, timeout=120)
    log = mllog(contract)
    keys = [key for key, _, _ in log]
    assert keys[:3] == ["cache_clear", "init_start", "submission_benchmark"]
    assert keys[keys.index("init_stop") :] == [
        *("init_stop", "run_start", "train_samples", "eval_samples", "block_start"),
        *("epoch_start", "epoch_stop") * 3,
        *("eval_start", "eval_accuracy", "eval_stop", "block_stop", "run_stop"),
    ]
    facts = {key: value for key, value, _ in log}
    assert facts["seed"] == 5
    assert (facts["train_samples"], facts["eval_samples"]) == (3, 1)
    assert facts["training_input_shape"] == [16, 16, 16]
    metadata = {key: extra for key, _, extra in log}
    # 2 passes over 3 cases are 3 epochs of one batch of 2, and epochs are counted in samples.
    assert metadata["block_start"]["first_epoch_num"] == 2
    assert metadata["block_start"]["epoch_count"] == 6
    assert metadata["eval_accuracy"]["epoch_num"] == 6
    assert metadata["run_stop"]["status"] == "success"
    assert accepted(Path(contract["LOGDIR"]) / "mllog.txt", "3.1.0")


def test_a_run_does_not_import_the_compiler(contract):  # it would cost each run more than a second
    code = "import sys, train; train.main(); print(int('torch._dynamo' in sys.modules))"
    assert processes(1, FOLDER, contract, code) == 0


@pytest.mark.parametrize(("ruleset", "numbers"), [("3.0.0", [1, 2, 3]), ("3.1.0", [2, 4, 6]), ("4.0.0", [2, 4, 6])])
def test_rulesets_before_3_1_count_epochs_and_later_ones_samples(unet3d, monkeypatch, contract, ruleset, numbers):
    assert run(unet3d, monkeypatch, contract, MLPERF_RULESET=ruleset) == 0
    assert [extra["epoch_num"] for key, _, extra in mllog(contract) if key == "epoch_start"] == numbers


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TARGET": "0.999"}, "target 0.999 was not met"),
        ({"BASE_LEARNING_RATE": "1e38", "WARMUP_EPOCHS": "0"}, "the loss is"),
    ],
)
def test_a_run_that_does_not_converge_is_logged_as_aborted(unet3d, monkeypatch, capsys, contract, changes, said):
    assert run(unet3d, monkeypatch, contract, **changes) == 1
    assert said in capsys.readouterr().err
    assert mllog(contract)[-1][2]["status"] == "aborted"


def test_a_network_that_finds_nothing_at_all_has_diverged(unet3d, monkeypatch, capsys, contract):
    monkeypatch.setattr(unet3d.train.Trainer, "evaluate", lambda trainer: 0.0)
    assert run(unet3d, monkeypatch, contract) == 1
    assert "diverged" in capsys.readouterr().err
    keys = [key for key, _, _ in mllog(contract)]
    assert keys.count("eval_accuracy") == 1


# Bad input


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "case_00001_y.npy").unlink(), "case_00001_y.npy: named in the list"),
        (lambda folder: (folder / "train_cases.txt").unlink(), "layout `npy`"),
        (lambda folder: (folder / "evaluation_cases.txt").write_text(""), "expected a case on each line"),
        (lambda folder: (folder / "train_cases.txt").write_text("00000\n"), "expected TRAIN_SAMPLES=3, found 1"),
        (lambda folder: (folder / "case_00002_x.npy").write_bytes(b"no array"), "expected an .npy file"),
        (lambda folder: np.save(folder / "case_00000_x.npy", np.zeros((1, 16, 18, 24))), "expected float32"),
        (lambda folder: np.save(folder / "case_00000_y.npy", np.zeros((1, 16, 16, 16), np.uint8)), "of one shape"),
    ],
)
def test_bad_data_end_the_run_with_status_2_and_the_file(unet3d, monkeypatch, capsys, contract, dataset, damage, said):
    damage(dataset)
    assert run(unet3d, monkeypatch, contract) == 2
    assert said in capsys.readouterr().err
    assert mllog(contract)[-1][2]["status"] == "aborted"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TRAINING_INPUT_SHAPE": "32,16,16"}, "expected a volume of at least (32, 16, 16)"),
        ({"GLOBAL_BATCH_SIZE": "4"}, "GLOBAL_BATCH_SIZE=4: expected at most TRAIN_SAMPLES=3"),
        ({"GLOBAL_BATCH_SIZE": "0"}, "expected 1 or more"),
        ({"GLOBAL_BATCH_SIZE": "many"}, "GLOBAL_BATCH_SIZE=many: expected int"),
        ({"GRADIENT_ACCUMULATION_STEPS": "3"}, "ACCUMULATION_STEPS=3 times 1, the number of processes"),
        ({"VALIDATION_INPUT_SHAPE": "16,16,18"}, "expected three multiples of 4"),
        ({"TRAINING_INPUT_SHAPE": "4,16,16"}, "8 or more"),
        ({"VALIDATION_OVERLAP": "0.3"}, "expected steps that divide 16"),
        ({"SEED": "-1"}, "SEED=-1"),
        ({"WORKERS": "-1"}, "WORKERS=-1: expected 0 or more"),
        ({"MLPERF_DIVISION": "closed"}, "MLPERF_DIVISION=closed: expected FILTERS=32,64,128,256,320, found"),
        ({"DGXNGPU": "2"}, "DGXNGPU=2: expected 2 processes, found 1"),
    ],
)
def test_bad_settings_end_the_run_with_status_2_and_what_was_expected(
    unet3d, monkeypatch, capsys, contract, changes, said
):
    assert run(unet3d, monkeypatch, contract, **changes) == 2
    assert said in capsys.readouterr().err


def test_sigterm_ends_a_run_with_loaders_aborted_and_without_half_a_line(contract):
    contract |= {"WORKERS": "1", "MAX_EPOCHS": "1000000", "FIRST_EVAL": "1000000"}
    run = subprocess.Popen([sys.executable, "train.py"], cwd=FOLDER, env=os.environ | contract, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 120
        while len(records(Path(contract["LOGDIR"]))) < 40 and time.monotonic() < end:
            time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 128 + signal.SIGTERM
    finally:
        run.kill()
    key, _, extra = mllog(contract)[-1]
    assert (key, extra["status"]) == ("run_stop", "aborted")


# What only a GPU does, with a GPU's part played


def build(unet3d, contract, monkeypatch, **changes):
    """A trainer for one process as `main` makes it."""
    for name, value in (contract | changes).items():
        monkeypatch.setenv(name, value)
    settings = unet3d.common.contract.read_settings(unet3d.train.Settings)
    return unet3d.train.Trainer(unet3d.common.contract.read_contract(), settings, unet3d.common.distributed.World())


def test_warming_up_leaves_everything_as_it_was(unet3d, contract, monkeypatch):
    trainer, same = (build(unet3d, contract, monkeypatch) for _ in range(2))
    trainer.warm_up()
    for value, before in zip(trainer.network.parameters(), same.network.parameters(), strict=True):
        assert torch.equal(value, before) and value.grad is None
    assert not any(velocity.any() for velocity in trainer.velocities)


def test_a_gpu_that_is_too_small_is_told_the_memory_it_needs(unet3d, contract, monkeypatch, capsys):
    def full(*arguments):
        raise torch.OutOfMemoryError

    trainer = build(unet3d, contract, monkeypatch)
    monkeypatch.setattr(trainer, "backward", full)
    monkeypatch.setattr(unet3d.common.memory, "of_device", lambda device: "it has 0.0 GiB")
    with pytest.raises(SystemExit) as end:
        trainer.warm_up()
    assert end.value.code == 3
    said = "2 crops at once need about 0.0 GiB, it has 0.0 GiB: raise GRADIENT_ACCUMULATION_STEPS=1"
    assert said in capsys.readouterr().err


def test_bfloat16_gives_nearly_the_same_loss_and_gradients_in_full_precision(unet3d, contract, monkeypatch, rng):
    image = torch.from_numpy(rng.normal(size=(2, 1, 16, 16, 16)).astype(np.float32))
    label = torch.from_numpy(rng.integers(0, 3, (2, 16, 16, 16)).astype(np.uint8))
    losses = []
    for bf16 in "01":
        trainer = build(unet3d, contract, monkeypatch, BF16=bf16)
        losses.append(trainer.backward(image, label, last=True).item())
        assert all(parameter.grad.dtype == torch.float32 for parameter in trainer.network.parameters())
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
