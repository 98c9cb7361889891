"""Train the 3D U-Net on KiTS19 until the mean dice meets the target: one run, logged as MLPerf asks.

What the launcher sets is described in common/contract.py; what can be set in settings.py. README.md describes
the problem, the data and the method. One process for each device (common/distributed.py).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import data
import torch
from common import loading, memory
from common.contract import Contract, keep_reference, read_contract, read_settings, stop
from common.distributed import World, join, leave
from common.log import Log
from common.steps import watched
from loss import dice_ce_loss, dice_score
from model import UNet3D
from optim import learning_rate, sgd_step
from settings import REFERENCE, Settings, blocks, check, hyperparameters
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from window import count, filled, predict, shares

SAMPLES_SINCE = (3, 1)  # the rulesets that count epochs in samples
DIVERGED = 1e-6  # a mean dice below this ends the run (training rules, unet3d)


def main() -> None:
    contract = read_contract()
    settings = read_settings(Settings)
    world = join(contract)
    check(settings, world)
    if contract.division == "closed":
        keep_reference(settings, REFERENCE)
    run(contract, settings, world, Log(contract, world.rank), lambda: Trainer(contract, settings, world))
    leave(world)


def run(contract: Contract, settings: Settings, world: World, log: Log, build: Callable[[], Trainer]) -> None:
    """The whole run and its log. `build` gives what trains and evaluates; a rehearsal gives a stand-in."""
    log.start("init_start")
    log.submission("unet3d", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings).items():
        log.event(key, value)
    trainer = build()
    world.barrier()
    log.end("init_stop")

    with log.timed() as outcome:
        train_samples, eval_samples = trainer.open_data()
        log.event("train_samples", train_samples)
        log.event("eval_samples", eval_samples)

        unit = settings.epoch_samples if contract.ruleset >= SAMPLES_SINCE else 1
        for block in blocks(settings):
            log.start("block_start", first_epoch_num=block[0] * unit, epoch_count=len(block) * unit)
            for epoch in block:
                log.start("epoch_start", epoch_num=epoch * unit)
                loss = trainer.train(epoch)
                log.end("epoch_stop", epoch_num=epoch * unit)
                if not math.isfinite(loss):
                    stop(f"the loss is {loss} in epoch {epoch}: lower BASE_LEARNING_RATE or warm up longer", status=1)
            log.start("eval_start", epoch_num=epoch * unit)
            dice = trainer.evaluate()
            log.event("eval_accuracy", dice, epoch_num=epoch * unit)
            log.end("eval_stop", epoch_num=epoch * unit)
            log.end("block_stop", first_epoch_num=block[0] * unit)
            outcome.reached = world.agree(dice >= settings.target)
            if outcome.reached:
                return
            if dice < DIVERGED:
                stop(f"the mean dice is {dice} in epoch {epoch}: diverged; lower BASE_LEARNING_RATE", status=1)
    stop(f"the mean dice is {dice:.4f} after {epoch} epochs: the target {settings.target} was not met", status=1)


class Trainer:
    """The network and the data of one process."""

    def __init__(self, contract: Contract, settings: Settings, world: World) -> None:
        self.settings, self.world = settings, world
        self.seed, self.folder = contract.seed, contract.data_dir
        torch.manual_seed(contract.seed)
        self.network = UNet3D(settings.filters).to(world.device, memory_format=torch.channels_last_3d)
        self.parameters = list(self.network.parameters())
        self.velocities = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.model = world.replicate(self.network)
        if settings.compile:
            self.model = torch.compile(self.model, mode=settings.compile)
        if world.device.type == "cuda":
            torch.backends.cudnn.benchmark = True
            self.warm_up()

    def open_data(self) -> tuple[int, int]:
        """Map the volumes, find what is in them, and start to load crops; gives the numbers of cases."""
        settings, world = self.settings, self.world
        cases = open_cases(self.folder, "train", settings.training_input_shape, settings.train_samples)
        self.eval_cases = open_cases(self.folder, "evaluation", settings.validation_input_shape, settings.eval_samples)
        # Each process looks for the foreground of its share of the cases, and tells the others.
        found = world.gather(list(loading.items(self.loader(data.Foregrounds(cases[world.rank :: world.size])))))
        for number, case in enumerate(cases):
            case.__dict__["foreground"] = found[number % world.size][number // world.size]
        parts = data.TrainParts(
            cases,
            part=settings.part(world.size),
            rank=world.rank,
            size=world.size,
            steps=settings.steps_per_epoch,
            accumulate=settings.gradient_accumulation_steps,
            window=settings.training_input_shape,
            oversampling=settings.oversampling,
            seed=self.seed,
        )
        self.train_parts = loading.items(self.loader(parts, itertools.count()))
        return len(cases), len(self.eval_cases)

    def loader(self, items: Dataset, numbers: Iterable[int] | None = None) -> DataLoader:
        """Load `items` in the order of `numbers`, by worker processes."""
        return DataLoader(
            items,
            batch_size=None,
            sampler=numbers,
            num_workers=self.settings.workers,
            worker_init_fn=loading.end_with_parent,
            collate_fn=lambda item: item,
            pin_memory=self.world.device.type == "cuda",
        )

    def train(self, epoch: int) -> float:
        """One epoch, counted from 1: every case once, but for an incomplete last batch; gives the mean loss."""
        settings = self.settings
        rate = learning_rate(
            epoch,
            settings.base_learning_rate,
            settings.initial_learning_rate,
            settings.warmup_epochs,
            settings.decay_epochs,
            settings.decay_factor,
        )
        losses = torch.zeros((), device=self.world.device)
        for _ in watched(range(settings.steps_per_epoch), settings.global_batch_size):
            for last in [False] * (settings.gradient_accumulation_steps - 1) + [True]:
                losses += self.backward(*next(self.train_parts), last)
            gradients = [parameter.grad for parameter in self.parameters]
            sgd_step(self.parameters, gradients, self.velocities, rate, settings.momentum, settings.weight_decay)
            self.model.zero_grad()
        return self.world.sum(losses).item() / self.world.size / settings.steps_per_epoch

    def backward(self, images: Tensor, labels: Tensor, last: bool) -> Tensor:
        """Add the gradient of one part to those of its batch; returns the part's share of the loss."""
        with contextlib.nullcontext() if last else self.world.local_gradients(self.model):
            labels = labels.to(self.world.device, non_blocking=True)
            loss = dice_ce_loss(self.logits(images), labels) / self.settings.gradient_accumulation_steps
            loss.backward()
        return loss.detach()

    def evaluate(self) -> float:
        """The mean dice of kidney and tumour over all evaluation cases, each with the same weight."""
        scores = torch.zeros((len(self.eval_cases), 2), dtype=torch.float64, device=self.world.device)
        for number in self.eval_share():
            scores[number] = self.score(self.eval_cases[number])
        return self.world.sum(scores).mean().item()  # the same on any number of processes: all others add zeros

    def eval_share(self) -> list[int]:
        """The cases that this process evaluates: about as many windows as the others'."""
        window, overlap = self.settings.validation_input_shape, self.settings.validation_overlap
        windows = [count(case.image.shape[1:], window, overlap) for case in self.eval_cases]
        return shares(windows, self.world.size)[self.world.rank]

    def score(self, case: data.Case) -> Tensor:
        """Dice of kidney and tumour, (2,) in fp64."""
        settings = self.settings
        image, label = (torch.from_numpy(array.copy()).to(self.world.device) for array in (case.image, case.label))
        model = filled(self.logits, settings.eval_batch_size) if settings.compile else self.logits
        window, overlap = settings.validation_input_shape, settings.validation_overlap
        logits, label = predict(model, image, label, window, overlap, settings.eval_batch_size)
        return dice_score(logits, label[0])

    def logits(self, images: Tensor) -> Tensor:
        """The network's answer to crops (N, 1, D, H, W), in the precision that was set."""
        images = images.to(self.world.device, torch.get_default_dtype(), non_blocking=True)
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.settings.bf16):
            return self.model(images)

    def warm_up(self) -> None:
        """Compile, and choose the fastest kernels: the gradient of an empty crop and a look at empty windows."""
        shape, part = self.settings.training_input_shape, self.settings.part(self.world.size)
        try:
            for last in (False, True):
                self.backward(torch.zeros(part, 1, *shape), torch.zeros(part, *shape, dtype=torch.uint8), last)
            with torch.inference_mode():
                self.logits(torch.zeros(self.settings.eval_batch_size, 1, *self.settings.validation_input_shape))
        except torch.OutOfMemoryError:
            needed = memory.training_bytes(self.network, (part, 1, *shape), self.settings.bf16)
            stop(
                f"{part} crops at once need about {memory.gib(needed)}, {memory.of_device(self.world.device)}: raise "
                f"GRADIENT_ACCUMULATION_STEPS={self.settings.gradient_accumulation_steps}",
                status=3,
            )
        self.model.zero_grad()


def open_cases(folder: Path, split: str, window: Sequence[int], expected: int) -> list[data.Case]:
    """Map one split; ends the run when it has another size than the settings were made for."""
    cases = data.open_cases(folder, split, window)
    if len(cases) != expected:
        name = "TRAIN_SAMPLES" if split == "train" else "EVAL_SAMPLES"
        stop(f"{folder}/{split}_cases.txt: expected {name}={expected}, found {len(cases)}; wrong DATADIR or config")
    return cases


if __name__ == "__main__":
    main()
