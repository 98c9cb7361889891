"""Train ResNet-50 v1.5 on ImageNet until its top-1 accuracy meets the target: one run, logged as MLPerf asks.

What the launcher sets is described in common/contract.py; each setting below may be set in the environment, in upper
case. README.md describes the problem, the data and the method.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import data
import numpy as np
import optim
import torch
import torch.nn.functional as F
from common.contract import read_contract, read_settings, stop
from common.log import Log
from model import ResNet
from torch import Tensor, nn

AUGMENTATION = 1  # separates the random stream of the crops from that of the order


@dataclass(frozen=True)
class Settings:
    """The defaults are the reference at a global batch size of 1632, the smallest with convergence points (RCP)."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)  # bottlenecks per stage
    width: int = 64  # channels of the first convolution
    classes: int = 1000

    train_samples: int = 1281167
    eval_samples: int = 50000
    image_size: int = 224  # pixels, both sides
    short_side: int = 256  # pixels, of an evaluation picture before its middle is cut out
    crop_min_area: float = 0.1  # of a training picture

    global_batch_size: int = 1632
    gradient_accumulation_steps: int = 8
    optimizer: str = "lars"  # or sgd
    base_lr: float = 7.4
    end_lr: float = 1e-4
    warmup_epochs: int = 2
    decay_steps: int = 27476
    momentum: float = 0.9
    weight_decay: float = 5e-5
    label_smoothing: float = 0.1

    target: float = 0.759  # top-1
    max_epochs: int = 37
    first_eval: int = 1  # epoch
    eval_every: int = 4  # epochs

    @property
    def batch_size(self) -> int:
        """Pictures that pass the network at once; the span of batch normalisation."""
        return self.global_batch_size // self.gradient_accumulation_steps

    @property
    def steps_per_epoch(self) -> int:
        """Updates of the weights per epoch; the pictures left over are dropped."""
        return self.train_samples // self.global_batch_size


def main() -> None:
    contract = read_contract()
    settings = read_settings(Settings)
    check(settings)
    if contract.nodes * max(contract.gpus, 1) > 1:
        stop(f"DGXNNODES={contract.nodes} DGXNGPU={contract.gpus}: this implementation trains on one device")

    log = Log(contract)
    log.start("init_start")
    log.submission("resnet", contract)
    log.event("seed", contract.seed)
    log_hyperparameters(log, settings)
    torch.manual_seed(contract.seed)
    device = torch.device("cuda" if contract.gpus else "cpu")
    model = ResNet(settings.blocks, settings.width, settings.classes)
    model.to(device, memory_format=torch.channels_last)
    groups = optim.groups(settings.optimizer, model, settings.weight_decay)
    log.end("init_stop")

    with log.timed() as outcome:
        train_set = open_records(contract.data_dir, "train", settings.train_samples)
        eval_set = open_records(contract.data_dir, "val", settings.eval_samples)
        log.event("train_samples", len(train_set))
        log.event("eval_samples", len(eval_set))

        for block in blocks(settings):
            log.start("block_start", first_epoch_num=block[0], epoch_count=len(block))
            for epoch in block:
                log.start("epoch_start", epoch_num=epoch)
                loss = train(model, groups, train_batches(train_set, settings, contract.seed, epoch), settings, epoch)
                log.end("epoch_stop", epoch_num=epoch)
                if not math.isfinite(loss):
                    stop(f"the loss is {loss} in epoch {epoch}: try a lower BASE_LR or more WARMUP_EPOCHS", status=1)
            log.start("eval_start", epoch_num=epoch)
            accuracy = evaluate(model, eval_batches(eval_set, settings)) / len(eval_set)
            log.event("eval_accuracy", accuracy, epoch_num=epoch)
            log.end("eval_stop", epoch_num=epoch)
            log.end("block_stop", first_epoch_num=block[0])
            if accuracy >= settings.target:
                outcome.reached = True
                break

    if not outcome.reached:
        stop(f"top-1 is {accuracy:.4f} after {epoch} epochs: the target {settings.target} was not met", status=1)


def train(
    model: nn.Module,
    groups: list[optim.Group],
    batches: Iterator[tuple[Tensor, Tensor]],
    settings: Settings,
    epoch: int,
) -> float:
    """One epoch, counted from 1; returns its mean loss."""
    device = next(model.parameters()).device
    accumulate = settings.gradient_accumulation_steps
    step = (epoch - 1) * settings.steps_per_epoch
    total = torch.zeros((), device=device)
    model.train()
    for number, (pictures, labels) in enumerate(batches, start=1):
        logits = model(pictures.to(device))
        loss = F.cross_entropy(logits, labels.to(device), label_smoothing=settings.label_smoothing) / accumulate
        loss.backward()
        total += loss.detach()
        if number % accumulate == 0:
            optim.step(groups, learning_rate(settings, step), settings.momentum)
            model.zero_grad()
            step += 1
    return total.item() / settings.steps_per_epoch


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> int:
    """How many pictures have their label as the most likely class."""
    device = next(model.parameters()).device
    correct = torch.zeros((), dtype=torch.int64, device=device)
    model.eval()
    for pictures, labels in batches:
        correct += (model(pictures.to(device)).argmax(dim=1) == labels.to(device)).sum()
    return correct.item()


def train_batches(records: data.Records, settings: Settings, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """An epoch's pictures, each at most once, in random order and randomly cropped."""
    random = np.random.default_rng([seed, epoch, AUGMENTATION])
    convert = functools.partial(
        data.train_picture, size=settings.image_size, min_area=settings.crop_min_area, random=random
    )
    used = settings.steps_per_epoch * settings.global_batch_size
    return data.batches(records, data.order(len(records), seed, epoch)[:used], settings.batch_size, convert)


def eval_batches(records: data.Records, settings: Settings) -> Iterator[tuple[Tensor, Tensor]]:
    """Every evaluation picture once."""
    convert = functools.partial(data.eval_picture, size=settings.image_size, short_side=settings.short_side)
    return data.batches(records, range(len(records)), settings.batch_size, convert)


def learning_rate(settings: Settings, step: int) -> float:
    """The learning rate of a step, counted from 0 over the whole run."""
    warmup = settings.warmup_epochs * settings.steps_per_epoch
    return optim.polynomial(step, settings.base_lr, warmup, settings.decay_steps, settings.end_lr)


def blocks(settings: Settings) -> Iterator[range]:
    """Epochs 1..max_epochs, cut after each epoch that an evaluation follows."""
    first = 1
    for last in range(settings.first_eval, settings.max_epochs + 1, settings.eval_every):
        yield range(first, last + 1)
        first = last + 1


def open_records(folder: Path, split: str, expected: int) -> data.Records:
    """Open one split; ends the run when it has another size than the settings were made for."""
    records = data.Records(folder, split)
    if len(records) != expected:
        name = "TRAIN_SAMPLES" if split == "train" else "EVAL_SAMPLES"
        stop(f"{records.path}: expected {name}={expected} pictures, found {len(records)}; wrong DATADIR or config")
    return records


def check(settings: Settings) -> None:
    """End the process with status 2 when a setting makes no sense."""
    accumulate = settings.gradient_accumulation_steps
    expectations = [
        ("optimizer", "lars or sgd", settings.optimizer in ("lars", "sgd")),
        ("gradient_accumulation_steps", "at least 1", accumulate >= 1),
        (
            "global_batch_size",
            f"1..{settings.train_samples} (TRAIN_SAMPLES), a multiple of GRADIENT_ACCUMULATION_STEPS={accumulate}",
            1 <= settings.global_batch_size <= settings.train_samples
            and settings.global_batch_size % max(accumulate, 1) == 0,
        ),
        ("image_size", f"1..{settings.short_side} (SHORT_SIDE)", 1 <= settings.image_size <= settings.short_side),
        ("crop_min_area", "more than 0, at most 1", 0 < settings.crop_min_area <= 1),
        ("decay_steps", "at least 1", settings.decay_steps >= 1),
        ("first_eval", f"1..{settings.max_epochs} (MAX_EPOCHS)", 1 <= settings.first_eval <= settings.max_epochs),
        ("eval_every", "at least 1", settings.eval_every >= 1),
    ]
    for name, expected, good in expectations:
        if not good:
            stop(f"{name.upper()}={getattr(settings, name)}: expected {expected}")


def log_hyperparameters(log: Log, settings: Settings) -> None:
    """The keys that the rules for the closed division ask for; most are named after the optimiser."""
    kind = settings.optimizer
    log.event("global_batch_size", settings.global_batch_size)
    log.event("gradient_accumulation_steps", settings.gradient_accumulation_steps)
    log.event("model_bn_span", settings.batch_size)
    log.event("opt_name", kind)
    log.event(f"{kind}_opt_base_learning_rate", settings.base_lr)
    log.event(f"{kind}_opt_end_learning_rate", settings.end_lr)
    log.event(f"{kind}_opt_learning_rate_decay_poly_power", optim.POWER)
    log.event(f"{kind}_opt_learning_rate_decay_steps", settings.decay_steps)
    log.event(f"{kind}_opt_momentum", settings.momentum)
    log.event(f"{kind}_opt_weight_decay", settings.weight_decay)
    if kind == "lars":
        log.event("lars_epsilon", 0.0)
        log.event("lars_opt_learning_rate_warmup_epochs", settings.warmup_epochs)
    else:
        log.event("opt_learning_rate_warmup_epochs", settings.warmup_epochs)


if __name__ == "__main__":
    main()
