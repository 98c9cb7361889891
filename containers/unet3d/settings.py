"""What can be set, one upper-case environment variable each (`configs/*.env`), and what the log says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from common.contract import stop
from common.distributed import World
from model import REFERENCE_FILTERS
from window import stride

REFERENCE = (  # what a closed run may not change
    *("filters", "train_samples", "eval_samples", "training_input_shape", "validation_input_shape"),
    *("validation_overlap", "oversampling", "target"),
)


@dataclass(frozen=True)
class Settings:
    """The defaults are the reference's own run, with a global batch size of 2."""

    filters: tuple[int, ...] = REFERENCE_FILTERS
    train_samples: int = 168
    eval_samples: int = 42
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

    bf16: bool = False  # convolutions in bfloat16 (autocast)
    compile: str = ""  # a mode of torch.compile, for example default; empty: not compiled
    workers: int = 0  # processes that load crops for each device; 0: loaded between two steps

    @property
    def steps_per_epoch(self) -> int:
        """Updates of the weights per epoch; the cases left over are dropped."""
        return self.train_samples // self.global_batch_size

    @property
    def epoch_samples(self) -> int:
        """The samples of all full batches."""
        return self.steps_per_epoch * self.global_batch_size

    def part(self, processes: int) -> int:
        """Crops that pass the network of one process at once."""
        return self.global_batch_size // (self.gradient_accumulation_steps * processes)


def blocks(settings: Settings) -> Iterator[range]:
    """The epochs up to each evaluation: more of them where an epoch does not have all training cases."""
    stretch = settings.train_samples / settings.epoch_samples
    counts = (settings.first_eval, settings.eval_every, settings.max_epochs)
    end, interval, limit = (math.ceil(count * stretch) for count in counts)
    begin = 1
    while begin <= limit:
        yield range(begin, min(end, limit) + 1)
        begin, end = end + 1, end + interval


def check(settings: Settings, world: World) -> None:
    """End the process with status 2 when a setting makes no sense."""
    positive = ("global_batch_size", "gradient_accumulation_steps", "first_eval", "eval_every", "max_epochs")
    for name in (*positive, "eval_batch_size"):
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    if settings.global_batch_size > settings.train_samples:
        stop(f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected at most TRAIN_SAMPLES={settings.train_samples}")
    if settings.workers < 0:
        stop(f"WORKERS={settings.workers}: expected 0 or more")
    if settings.global_batch_size % (settings.gradient_accumulation_steps * world.size):
        stop(
            f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected a multiple of GRADIENT_ACCUMULATION_STEPS="
            f"{settings.gradient_accumulation_steps} times {world.size}, the number of processes"
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


def hyperparameters(settings: Settings) -> dict[str, object]:
    """The keys that the closed division asks for, with the values that are really used."""
    return {
        "global_batch_size": settings.global_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "opt_name": "sgd",
        "opt_base_learning_rate": settings.base_learning_rate,
        "opt_initial_learning_rate": settings.initial_learning_rate,
        "opt_learning_rate_warmup_epochs": settings.warmup_epochs,
        "opt_learning_rate_decay_boundary_epochs": list(settings.decay_epochs),
        "opt_learning_rate_decay_factor": settings.decay_factor,
        "opt_momentum": settings.momentum,
        "opt_weight_decay": settings.weight_decay,
        "oversampling": settings.oversampling,
        "training_input_shape": list(settings.training_input_shape),
        "validation_input_shape": list(settings.validation_input_shape),
        "validation_overlap": settings.validation_overlap,
    }
