"""What can be set, one upper-case environment variable each (`configs/*.env`), and what the log says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import optim
from common.contract import stop
from common.distributed import World

REFERENCE = (  # what a closed run may not change
    *("blocks", "width", "classes", "train_samples", "eval_samples", "image_size", "short_side", "crop_min_area"),
    *("target",),
)


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
    crop_min_area: float = 0.05  # of a training picture

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

    bf16: bool = False  # convolutions and matrix products in bfloat16 (autocast)
    compile: str = ""  # a mode of torch.compile, for example default; empty: not compiled
    workers: int = 0  # processes that load pictures for each device; 0: loaded between two steps

    @property
    def steps_per_epoch(self) -> int:
        """Updates of the weights per epoch; the pictures left over are dropped."""
        return self.train_samples // self.global_batch_size

    def part(self, processes: int) -> int:
        """Pictures that pass the network of one process at once; the span of batch normalisation."""
        return self.global_batch_size // (self.gradient_accumulation_steps * processes)


def blocks(settings: Settings) -> Iterator[range]:
    """Epochs 1..max_epochs, cut after each epoch that an evaluation follows."""
    first = 1
    for last in range(settings.first_eval, settings.max_epochs + 1, settings.eval_every):
        yield range(first, last + 1)
        first = last + 1


def check(settings: Settings, world: World) -> None:
    """End the process with status 2 when a setting makes no sense."""
    accumulate, batch, last = settings.gradient_accumulation_steps, settings.global_batch_size, settings.max_epochs
    parts = max(accumulate, 1) * world.size
    expectations = [
        ("optimizer", "lars or sgd", settings.optimizer in ("lars", "sgd")),
        ("gradient_accumulation_steps", "at least 1", accumulate >= 1),
        (
            "global_batch_size",
            f"1..{settings.train_samples} (TRAIN_SAMPLES), a multiple of GRADIENT_ACCUMULATION_STEPS={accumulate} "
            f"times {world.size}, the number of processes",
            1 <= batch <= settings.train_samples and batch % parts == 0,
        ),
        ("image_size", f"1..{settings.short_side} (SHORT_SIDE)", 1 <= settings.image_size <= settings.short_side),
        ("crop_min_area", "more than 0, at most 1", 0 < settings.crop_min_area <= 1),
        ("decay_steps", "at least 1", settings.decay_steps >= 1),
        ("first_eval", f"1..{last} (MAX_EPOCHS)", 1 <= settings.first_eval <= last),
        ("eval_every", "at least 1", settings.eval_every >= 1),
        ("workers", "0 or more", settings.workers >= 0),
    ]
    for name, expected, good in expectations:
        if not good:
            stop(f"{name.upper()}={getattr(settings, name)}: expected {expected}")


def hyperparameters(settings: Settings, world: World) -> dict[str, object]:
    """The keys that the rules for the closed division ask for; most are named after the optimiser."""
    kind = settings.optimizer
    lars = {"lars_epsilon": 0.0, "lars_opt_learning_rate_warmup_epochs": settings.warmup_epochs}
    sgd = {"opt_learning_rate_warmup_epochs": settings.warmup_epochs}
    return {
        "global_batch_size": settings.global_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "model_bn_span": settings.part(world.size),
        "opt_name": kind,
        f"{kind}_opt_base_learning_rate": settings.base_lr,
        f"{kind}_opt_end_learning_rate": settings.end_lr,
        f"{kind}_opt_learning_rate_decay_poly_power": optim.POWER,
        f"{kind}_opt_learning_rate_decay_steps": settings.decay_steps,
        f"{kind}_opt_momentum": settings.momentum,
        f"{kind}_opt_weight_decay": settings.weight_decay,
        **(lars if kind == "lars" else sgd),
    }
