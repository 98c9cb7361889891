"""What can be set, one upper-case environment variable each (`configs/*.env`), and what the log says of it."""

from __future__ import annotations

from dataclasses import dataclass

from common.contract import stop
from common.distributed import World

REFERENCE = (  # what a closed run may not change
    *("vocab_size", "max_duration", "cache_features", "dither", "encoder_hidden", "encoder_pre_layers"),
    *("encoder_post_layers", "encoder_stack", "predictor_hidden", "predictor_layers", "joint_hidden", "target"),
)


@dataclass(frozen=True)
class Settings:
    """Defaults: the reference's model and data, and its hyperparameters for a global batch of 1024."""

    train_subsets: tuple[str, ...] = ("train-clean-100", "train-clean-360", "train-other-500")
    eval_subset: str = "dev-clean"
    vocab_size: int = 1023
    max_duration: float = 16.7  # seconds, of training utterances
    num_buckets: int = 1
    cache_features: bool = False  # keep all features in memory: small sets without speed perturbation and dither

    speed_min: float = 0.85
    speed_max: float = 1.15
    dither: float = 1e-5
    freq_masks: int = 2
    freq_mask_min: int = 0
    freq_mask_max: int = 20
    time_masks: int = 10
    time_mask_min: float = 0.0
    time_mask_max: float = 0.03

    encoder_hidden: int = 1024
    encoder_pre_layers: int = 2
    encoder_post_layers: int = 3
    encoder_stack: int = 2  # frames joined into one between the two
    predictor_hidden: int = 512
    predictor_layers: int = 2
    joint_hidden: int = 512
    encoder_dropout: float = 0.1
    predictor_dropout: float = 0.3
    joint_dropout: float = 0.3
    init_scale: float = 0.5

    global_batch_size: int = 1024
    gradient_accumulation_steps: int = 8  # parts of the global batch that each process computes one after the other
    base_learning_rate: float = 0.007447
    min_learning_rate: float = 1e-5
    warmup_epochs: int = 3
    hold_epochs: int = 17
    gamma: float = 0.9037
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-9
    weight_decay: float = 1e-3
    clip_norm: float = 1.0
    ema: float = 0.992

    eval_batch_size: int = 64
    max_symbols: int = 300
    target: float = 0.058  # word error rate
    max_epochs: int = 100

    bf16: bool = False  # the network in bfloat16 (autocast); weights, loss and optimiser stay float32
    compile: str = ""  # a mode of torch.compile for the joint network, for example default; empty: not compiled
    joint_places: int = 1 << 18  # places (utterance, frame, label) that the joint network computes at once
    workers: int = 0  # processes that read and compute features for each device; 0: done between two steps

    def part(self, processes: int) -> int:
        """Utterances that pass the network at once."""
        return self.global_batch_size // (processes * self.gradient_accumulation_steps)


def check(settings: Settings, world: World) -> None:
    """End the process with status 2 where it is asked for something it cannot do."""
    at_least_1 = "global_batch_size", "gradient_accumulation_steps", "num_buckets", "eval_batch_size", "joint_places"
    for name in at_least_1:
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    if settings.workers < 0:
        stop(f"WORKERS={settings.workers}: expected 0 or more")
    if settings.global_batch_size % (settings.gradient_accumulation_steps * world.size):
        stop(
            f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected a multiple of GRADIENT_ACCUMULATION_STEPS="
            f"{settings.gradient_accumulation_steps} times {world.size} processes"
        )
    if settings.cache_features and (settings.speed_min, settings.speed_max, settings.dither) != (1, 1, 0):
        stop("CACHE_FEATURES=1: expected SPEED_MIN=1 SPEED_MAX=1 DITHER=0, so that all epochs share the features")


def hyperparameters(settings: Settings) -> dict[str, object]:
    """The keys that the closed division asks for (ruleset 3.1.0), with the values of this run."""
    return {
        "global_batch_size": settings.global_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "opt_name": "lamb",
        "opt_base_learning_rate": settings.base_learning_rate,
        "opt_lamb_epsilon": settings.epsilon,
        "opt_lamb_learning_rate_decay_poly_power": settings.gamma,
        "opt_learning_rate_warmup_epochs": settings.warmup_epochs,
        "opt_lamb_learning_rate_hold_epochs": settings.hold_epochs,
        "opt_lamb_beta_1": settings.beta_1,
        "opt_lamb_beta_2": settings.beta_2,
        "opt_gradient_clip_norm": settings.clip_norm,
        "opt_learning_rate_alt_decay_func": True,
        "opt_learning_rate_alt_warmup_func": True,
        "opt_lamb_learning_rate_min": settings.min_learning_rate,
        "opt_weight_decay": settings.weight_decay,
        "data_train_max_duration": settings.max_duration,
        "data_train_num_buckets": settings.num_buckets,
        "data_speed_perturbaton_min": settings.speed_min,  # the official keys are spelt like this
        "data_speed_perturbaton_max": settings.speed_max,
        "data_spec_augment_freq_n": settings.freq_masks,
        "data_spec_augment_freq_min": settings.freq_mask_min,
        "data_spec_augment_freq_max": settings.freq_mask_max,
        "data_spec_augment_time_n": settings.time_masks,
        "data_spec_augment_time_min": settings.time_mask_min,
        "data_spec_augment_time_max": settings.time_mask_max,
        "eval_max_prediction_symbols": settings.max_symbols,
        "model_eval_ema_factor": settings.ema,
    }
