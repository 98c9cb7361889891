"""What can be set, one upper-case environment variable each (`configs/*.env`), and what the log says of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from common.contract import keep_reference, stop
from common.distributed import World
from model import Sizes

EVAL_SAMPLES = 10_000  # of the benchmark


@dataclass(frozen=True)
class Settings:
    """Defaults: the reference's hyperparameters for a global batch of 448 sequences."""

    global_batch_size: int = 448
    gradient_accumulation_steps: int = 16  # parts of the batch that each process computes one after the other
    base_learning_rate: float = 4.25e-4
    training_steps: int = 6700  # the learning rate has come down to 0 then, so a run ends here at the latest
    warmup_steps: int = 0
    start_warmup_step: int = 0  # 0 or negative
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    checkpoint: str = ""  # to start from, TensorFlow's prefix below DATADIR or absolute; empty: random weights
    eval_samples: int = EVAL_SAMPLES
    target: float = 0.72  # masked-LM accuracy
    eval_interval: int = 0  # samples; 0 is the rules' formula, see `reference_interval`
    eval_batch_size: int = 32  # the accuracy does not depend on it

    pack: bool = False  # several sequences in one row of the network; only the speed depends on it
    bf16: bool = False  # the network in bfloat16 (autocast)
    compile: str = ""  # a mode of torch.compile, for example default; empty: not compiled
    workers: int = 0  # processes that make batches for each device; 0: made between two steps

    def part(self, processes: int) -> int:
        """Sequences that pass the network of one process at once."""
        return self.global_batch_size // (self.gradient_accumulation_steps * processes)


def check(settings: Settings, sizes: Sizes, world: World) -> None:
    """End the process with status 2 when a setting makes no sense."""
    positive = ("global_batch_size", "gradient_accumulation_steps", "training_steps", "eval_samples", "eval_batch_size")
    for name in positive:
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    for name in ("eval_interval", "warmup_steps", "workers"):
        if getattr(settings, name) < 0:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 0 or more")
    if settings.global_batch_size % (settings.gradient_accumulation_steps * world.size):
        stop(
            f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected a multiple of GRADIENT_ACCUMULATION_STEPS="
            f"{settings.gradient_accumulation_steps} times {world.size}, the number of processes"
        )
    if settings.start_warmup_step > 0:
        stop(f"START_WARMUP_STEP={settings.start_warmup_step}: expected 0 or a negative number")
    if sizes.hidden_size % sizes.num_attention_heads:
        stop(f"HIDDEN_SIZE={sizes.hidden_size}: expected a multiple of NUM_ATTENTION_HEADS={sizes.num_attention_heads}")


def check_reference(settings: Settings, sizes: Sizes) -> None:
    """End the process where a closed run would train another network, on other data, or from another start."""
    keep_reference(sizes, [field.name for field in dataclasses.fields(sizes)])
    keep_reference(settings, ("eval_samples", "eval_interval", "target"))
    if not settings.checkpoint:
        stop("MLPERF_DIVISION=closed: expected CHECKPOINT, the benchmark starts from one; README.md says where it is")


def hyperparameters(settings: Settings) -> dict[str, object]:
    """The keys that the closed division asks for (rulesets 3.1.0 to 5.0.0), with the values of this run."""
    return {
        "global_batch_size": settings.global_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "opt_base_learning_rate": settings.base_learning_rate,
        "opt_lamb_epsilon": settings.epsilon,
        "opt_learning_rate_training_steps": settings.training_steps,
        "opt_learning_rate_warmup_steps": settings.warmup_steps,
        "num_warmup_steps": settings.warmup_steps,
        "start_warmup_step": settings.start_warmup_step,
        "opt_lamb_beta_1": settings.beta_1,
        "opt_lamb_beta_2": settings.beta_2,
        "opt_lamb_weight_decay_rate": settings.weight_decay,
        "opt_lamb_learning_rate_decay_poly_power": 1.0,
        "opt_gradient_clip_norm": settings.clip_norm,
    }


def blocks(settings: Settings) -> Iterator[range]:
    """The steps between two evaluations, which come at the first step at or beyond each multiple of the interval.

    The last block ends with the last step.
    """
    interval = settings.eval_interval or reference_interval(settings.global_batch_size)
    first = 0
    while first < settings.training_steps:
        multiple = first * settings.global_batch_size // interval + 1
        last = min(math.ceil(multiple * interval / settings.global_batch_size), settings.training_steps)
        yield range(first, last)
        first = last


def reference_interval(batch: int) -> int:
    """Samples from one evaluation to the next (training rules, bert)."""
    return math.floor(0.05 * (230.23 * batch + 3_000_000) / 25_000) * 25_000
