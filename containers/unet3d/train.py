"""Train the 3D U-Net on KiTS19 until the mean dice meets the target: one process, one run.

What the launcher sets is described in common/contract.py; each setting below may be set in the environment, in upper
case. README.md describes the problem, the data and the method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from common.contract import Contract, read_contract, read_settings, stop
from common.log import Log
from data import Case, open_cases, training_batches
from loss import dice_ce_loss, dice_score
from model import REFERENCE_FILTERS, UNet3D
from optim import learning_rate, sgd_step
from torch import Tensor
from window import predict, stride

DIVERGED = 1e-6  # a mean dice below this ends the run (training rules, unet3d)


@dataclass(frozen=True)
class Settings:
    """The defaults are the reference's own run, with a global batch size of 2."""

    filters: tuple[int, ...] = REFERENCE_FILTERS
    training_input_shape: tuple[int, ...] = (128, 128, 128)
    validation_input_shape: tuple[int, ...] = (128, 128, 128)  # of the sliding window
    validation_overlap: float = 0.5
    oversampling: float = 0.4  # probability of a crop around a kidney or tumour

    global_batch_size: int = 2
    gradient_accumulation_steps: int = 1
    base_learning_rate: float = 0.8
    initial_learning_rate: float = 1e-4
    warmup_epochs: int = 200
    decay_epochs: tuple[int, ...] = ()
    decay_factor: float = 1.0
    momentum: float = 0.9
    weight_decay: float = 0.0

    target: float = 0.908  # mean dice
    # The next three count passes over all training cases; an epoch is shorter where the batch does not divide them.
    first_eval: int = 1000
    eval_every: int = 20
    max_epochs: int = 10000
    eval_batch_size: int = 1  # windows at a time; the dice does not depend on it
    epoch_num_in_samples: bool = True  # as the rulesets from 3.1.0 on have it; those before count epochs


def main() -> None:
    contract = read_contract()
    settings = read_settings(Settings)
    check(contract, settings)

    log = Log(contract)
    log.start("init_start")
    log.submission("unet3d", contract)
    log.event("seed", contract.seed)
    log_hyperparameters(log, settings)
    torch.manual_seed(contract.seed)
    device = torch.device("cuda" if contract.gpus else "cpu")
    model = UNet3D(settings.filters).to(device, memory_format=torch.channels_last_3d)
    velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
    log.end("init_stop")

    with log.timed() as outcome:
        train_cases = open_cases(contract.data_dir, "train", settings.training_input_shape)
        eval_cases = open_cases(contract.data_dir, "evaluation", settings.validation_input_shape)
        log.event("train_samples", len(train_cases))
        log.event("eval_samples", len(eval_cases))

        epoch_samples = samples_per_epoch(len(train_cases), settings)
        unit = epoch_samples if settings.epoch_num_in_samples else 1
        for block in blocks(settings, len(train_cases) / epoch_samples):
            log.start("block_start", first_epoch_num=block[0] * unit, epoch_count=len(block) * unit)
            for epoch in block:
                log.start("epoch_start", epoch_num=epoch * unit)
                loss = train(model, velocities, train_cases, settings, epoch, contract.seed)
                log.end("epoch_stop", epoch_num=epoch * unit)
                if not math.isfinite(loss):
                    stop(f"the loss is {loss} in epoch {epoch}: lower BASE_LEARNING_RATE or warm up longer", status=1)
            log.start("eval_start", epoch_num=epoch * unit)
            dice = evaluate(model, eval_cases, settings).mean().item()
            log.event("eval_accuracy", dice, epoch_num=epoch * unit)
            log.end("eval_stop", epoch_num=epoch * unit)
            log.end("block_stop", first_epoch_num=block[0] * unit)
            if dice >= settings.target:
                outcome.reached = True
                return
            if dice < DIVERGED:
                stop(f"the mean dice is {dice} in epoch {epoch}: diverged; lower BASE_LEARNING_RATE", status=1)
    stop(f"the mean dice is {dice:.4f} after {epoch} epochs: the target {settings.target} was not met", status=1)


def train(
    model: UNet3D, velocities: list[Tensor], cases: list[Case], settings: Settings, epoch: int, seed: int
) -> float:
    """One epoch, counted from 1: every case once, but for an incomplete last batch; gives the mean loss."""
    device = next(model.parameters()).device
    parameters = list(model.parameters())
    rate = learning_rate(
        epoch,
        settings.base_learning_rate,
        settings.initial_learning_rate,
        settings.warmup_epochs,
        settings.decay_epochs,
        settings.decay_factor,
    )
    parts = settings.gradient_accumulation_steps
    batches = training_batches(
        cases, settings.global_batch_size, settings.training_input_shape, settings.oversampling, [seed, epoch]
    )
    losses = []
    for images, labels in batches:
        for image, label in zip(images.chunk(parts), labels.chunk(parts), strict=True):
            loss = dice_ce_loss(model(image.to(device)), label.to(device))
            (loss / parts).backward()
            losses.append(loss.detach())
        gradients = [parameter.grad for parameter in parameters]
        sgd_step(parameters, gradients, velocities, rate, settings.momentum, settings.weight_decay)
        model.zero_grad()
    return torch.stack(losses).mean().item()


def evaluate(model: UNet3D, cases: list[Case], settings: Settings) -> Tensor:
    """Dice of kidney and tumour of each case, (cases, 2) fp64 on the CPU; the benchmark's quality is their mean."""
    device = next(model.parameters()).device
    window, overlap = settings.validation_input_shape, settings.validation_overlap
    scores = []
    for case in cases:
        image, label = (torch.from_numpy(array.copy()).to(device) for array in (case.image, case.label))
        logits, label = predict(model, image, label, window, overlap, settings.eval_batch_size)
        scores.append(dice_score(logits, label[0]).cpu())
    return torch.stack(scores)


def samples_per_epoch(cases: int, settings: Settings) -> int:
    """The samples of all full batches."""
    steps = cases // settings.global_batch_size
    if steps == 0:
        stop(f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected at most {cases}, the cases to train on")
    return steps * settings.global_batch_size


def blocks(settings: Settings, stretch: float) -> Iterator[range]:
    """The epochs up to each evaluation; `stretch` is the number of training cases by the samples of an epoch."""
    counts = (settings.first_eval, settings.eval_every, settings.max_epochs)
    end, interval, limit = (math.ceil(count * stretch) for count in counts)
    begin = 1
    while begin <= limit:
        yield range(begin, min(end, limit) + 1)
        begin, end = end + 1, end + interval


def check(contract: Contract, settings: Settings) -> None:
    """End the process before anything is logged if it cannot work: with status 2, or 3 if the machine is at fault."""
    if contract.nodes > 1 or contract.gpus > 1:
        stop(f"DGXNNODES={contract.nodes} DGXNGPU={contract.gpus}: this implementation trains on one device")
    if contract.gpus and not torch.cuda.is_available():
        stop(f"DGXNGPU={contract.gpus}: torch {torch.__version__} finds no GPU here; look with `nvidia-smi`", status=3)
    if contract.seed < 0:
        stop(f"SEED={contract.seed}: expected 0 or more")
    positive = ("global_batch_size", "gradient_accumulation_steps", "first_eval", "eval_every", "max_epochs")
    for name in (*positive, "eval_batch_size"):
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    if settings.global_batch_size % settings.gradient_accumulation_steps:
        stop(
            f"GRADIENT_ACCUMULATION_STEPS={settings.gradient_accumulation_steps}: "
            f"expected a divisor of GLOBAL_BATCH_SIZE={settings.global_batch_size}"
        )
    multiple = 2 ** len(settings.filters)
    for name in ("training_input_shape", "validation_input_shape"):
        shape = getattr(settings, name)
        if len(shape) != 3 or min(shape) < 2 * multiple or any(size % multiple for size in shape):
            stop(
                f"{name.upper()}={','.join(map(str, shape))}: expected three multiples of {multiple}, "
                f"{2 * multiple} or more, since the network halves them {len(settings.filters)} times"
            )
    for size in settings.validation_input_shape:
        step = stride(size, settings.validation_overlap)
        if step < 1 or size % step:
            stop(f"VALIDATION_OVERLAP={settings.validation_overlap}: expected steps that divide {size}, like 0.5 does")


def log_hyperparameters(log: Log, settings: Settings) -> None:
    """The keys that the closed division asks for, with the values that are really used."""
    log.event("global_batch_size", settings.global_batch_size)
    log.event("gradient_accumulation_steps", settings.gradient_accumulation_steps)
    log.event("opt_name", "sgd")
    log.event("opt_base_learning_rate", settings.base_learning_rate)
    log.event("opt_initial_learning_rate", settings.initial_learning_rate)
    log.event("opt_learning_rate_warmup_epochs", settings.warmup_epochs)
    log.event("opt_learning_rate_decay_boundary_epochs", list(settings.decay_epochs))
    log.event("opt_learning_rate_decay_factor", settings.decay_factor)
    log.event("opt_momentum", settings.momentum)
    log.event("opt_weight_decay", settings.weight_decay)
    log.event("oversampling", settings.oversampling)
    log.event("training_input_shape", list(settings.training_input_shape))
    log.event("validation_input_shape", list(settings.validation_input_shape))
    log.event("validation_overlap", settings.validation_overlap)


if __name__ == "__main__":
    main()
