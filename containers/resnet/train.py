"""Train ResNet-50 v1.5 on ImageNet until its top-1 accuracy meets the target: one run, logged as MLPerf asks.

What the launcher sets is described in common/contract.py; what can be set in settings.py. README.md describes
the problem, the data and the method. One process for each device (common/distributed.py).
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable
from pathlib import Path

import data
import optim
import torch
import torch.nn.functional as F
from common import loading, memory
from common.contract import Contract, keep_reference, read_contract, read_settings, stop
from common.distributed import World, join, leave
from common.log import Log
from common.steps import watched
from model import ResNet
from settings import REFERENCE, Settings, blocks, check, hyperparameters
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


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
    log.submission("resnet", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings, world).items():
        log.event(key, value)
    trainer = build()
    world.barrier()
    log.end("init_stop")

    with log.timed() as outcome:
        train_samples, eval_samples = trainer.open_data()
        log.event("train_samples", train_samples)
        log.event("eval_samples", eval_samples)
        for block in blocks(settings):
            log.start("block_start", first_epoch_num=block[0], epoch_count=len(block))
            for epoch in block:
                log.start("epoch_start", epoch_num=epoch)
                loss = trainer.train(epoch)
                log.end("epoch_stop", epoch_num=epoch)
                if not math.isfinite(loss):
                    stop(f"the loss is {loss} in epoch {epoch}: try a lower BASE_LR or more WARMUP_EPOCHS", status=1)
            log.start("eval_start", epoch_num=epoch)
            accuracy = trainer.evaluate()
            log.event("eval_accuracy", accuracy, epoch_num=epoch)
            log.end("eval_stop", epoch_num=epoch)
            log.end("block_stop", first_epoch_num=block[0])
            outcome.reached = world.agree(accuracy >= settings.target)
            if outcome.reached:
                return
    stop(f"top-1 is {accuracy:.4f} after {epoch} epochs: the target {settings.target} was not met", status=1)


class Trainer:
    """The network and the data of one process."""

    def __init__(self, contract: Contract, settings: Settings, world: World) -> None:
        self.settings, self.world = settings, world
        self.seed, self.folder = contract.seed, contract.data_dir
        self.part = settings.part(world.size)
        self.mean = torch.tensor(data.MEAN, device=world.device).view(3, 1, 1)
        torch.manual_seed(contract.seed)
        self.network = ResNet(settings.blocks, settings.width, settings.classes)
        self.network.to(world.device, memory_format=torch.channels_last)
        self.groups = optim.groups(settings.optimizer, self.network, settings.weight_decay)
        self.model = world.replicate(self.network)
        if settings.compile:
            self.model = torch.compile(self.model, mode=settings.compile)
        if world.device.type == "cuda":
            torch.backends.cudnn.benchmark = True
            self.warm_up()

    def open_data(self) -> tuple[int, int]:
        """Open both splits and start to load; gives their numbers of pictures."""
        settings = self.settings
        share = data.Share(self.part, self.world.rank, self.world.size)
        train_set = open_records(self.folder, "train", settings.train_samples)
        eval_set = open_records(self.folder, "val", settings.eval_samples)
        steps, accumulate = settings.steps_per_epoch, settings.gradient_accumulation_steps
        size = settings.image_size
        parts = data.TrainParts(train_set, share, steps, accumulate, size, settings.crop_min_area, self.seed)
        self.train_parts = loading.items(self.loader(parts, range(settings.max_epochs * steps * accumulate)))
        self.eval_parts = self.loader(data.EvalParts(eval_set, share, size, settings.short_side))
        return len(train_set), len(eval_set)

    def loader(self, parts: Dataset, numbers: range | None = None) -> DataLoader:
        """Load `parts` in the order of `numbers`, by worker processes that live as long as the run."""
        workers = self.settings.workers
        pin = self.world.device.type == "cuda"
        return DataLoader(
            parts,
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            worker_init_fn=loading.end_with_parent,
            persistent_workers=workers > 0,
            pin_memory=pin,
        )

    def train(self, epoch: int) -> float:
        """One epoch, counted from 1; returns its mean loss over all processes."""
        settings = self.settings
        steps = range((epoch - 1) * settings.steps_per_epoch, epoch * settings.steps_per_epoch)
        self.model.train()
        losses = torch.zeros((), device=self.world.device)
        for step in watched(steps, settings.global_batch_size):
            for last in [False] * (settings.gradient_accumulation_steps - 1) + [True]:
                losses += self.backward(*next(self.train_parts), last)
            optim.step(self.groups, learning_rate(settings, step), settings.momentum)
            self.model.zero_grad()
        return self.world.sum(losses).item() / self.world.size / len(steps)

    def backward(self, pictures: Tensor, labels: Tensor, last: bool) -> Tensor:
        """Add the gradient of one part to those of its batch; returns the part's share of the loss."""
        with contextlib.nullcontext() if last else self.world.local_gradients(self.model):
            logits = self.logits(pictures)
            labels = labels.to(self.world.device, non_blocking=True)
            loss = F.cross_entropy(logits, labels, label_smoothing=self.settings.label_smoothing)
            loss = loss / self.settings.gradient_accumulation_steps
            loss.backward()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self) -> float:
        """Top-1 accuracy over all evaluation pictures, each counted once; batch statistics are the processes' mean."""
        self.world.average(buffer for buffer in self.network.buffers() if buffer.is_floating_point())
        self.model.eval()
        counts = torch.zeros(2, dtype=torch.int64, device=self.world.device)
        for pictures, labels in loading.items(self.eval_parts):
            labels = labels.to(self.world.device, non_blocking=True)
            found = self.logits(pictures).argmax(dim=1)
            counts += torch.stack([(found == labels).sum(), (labels != data.NOBODY).sum()])
        correct, total = self.world.sum(counts).tolist()
        return correct / total

    def logits(self, pictures: Tensor) -> Tensor:
        """The network's answer to pictures (N, 3, H, W) in uint8 without the mean, in the precision that was set."""
        pictures = pictures.to(self.world.device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.settings.bf16):
            return self.model(pictures - self.mean)

    def warm_up(self) -> None:
        """Compile, and choose the fastest kernels: an update and a look at black pictures, then all is as before."""
        before = copy.deepcopy(self.network.state_dict())
        size = self.settings.image_size
        pictures, labels = torch.zeros((self.part, 3, size, size), dtype=torch.uint8), torch.zeros(self.part).long()
        try:
            self.model.train()
            for last in (False, True):
                self.backward(pictures, labels, last)
            optim.step(self.groups, lr=0.0, momentum=self.settings.momentum)
            self.model.eval()
            with torch.no_grad():
                self.logits(pictures)
        except torch.OutOfMemoryError:
            needed = memory.training_bytes(self.network, (self.part, 3, size, size), self.settings.bf16)
            stop(
                f"{self.part} pictures at once need about {memory.gib(needed)}, {memory.of_device(self.world.device)}: "
                f"raise GRADIENT_ACCUMULATION_STEPS={self.settings.gradient_accumulation_steps}",
                status=3,
            )
        self.model.zero_grad()
        self.network.load_state_dict(before)


def learning_rate(settings: Settings, step: int) -> float:
    """The learning rate of a step, counted from 0 over the whole run."""
    warmup = settings.warmup_epochs * settings.steps_per_epoch
    return optim.polynomial(step, settings.base_lr, warmup, settings.decay_steps, settings.end_lr)


def open_records(folder: Path, split: str, expected: int) -> data.Records:
    """Open one split; ends the run when it has another size than the settings were made for."""
    records = data.Records(folder, split)
    if len(records) != expected:
        name = "TRAIN_SAMPLES" if split == "train" else "EVAL_SAMPLES"
        stop(f"{records.path}: expected {name}={expected} pictures, found {len(records)}; wrong DATADIR or config")
    return records


if __name__ == "__main__":
    main()
