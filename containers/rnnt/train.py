"""Train the transducer on LibriSpeech until its word error rate is low enough, and log it as MLPerf Training asks.

Started by `run_and_time.sh`; what a run needs from its environment is said in `common/contract.py`, what can be set
is `Settings` below, one upper-case variable each (`configs/*.env`). One process, on the CPU.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import data
import decode
import features
import numpy as np
import optim
import torch
from common.contract import Contract, read_contract, read_settings, stop
from common.log import Log
from loss import transducer_loss
from model import Transducer
from sentencepiece import SentencePieceProcessor
from torch import Tensor

LoadFeatures = Callable[[Path], Tensor]


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
    predictor_hidden: int = 512
    predictor_layers: int = 2
    joint_hidden: int = 512
    encoder_dropout: float = 0.1
    predictor_dropout: float = 0.3
    joint_dropout: float = 0.3
    init_scale: float = 0.5

    global_batch_size: int = 1024
    gradient_accumulation_steps: int = 8
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


def main() -> None:
    contract, settings = read_contract(), read_settings(Settings)
    check(contract, settings)
    log = Log(contract)

    log.start("init_start")
    log.submission("rnnt", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings).items():
        log.event(key, value)
    torch.manual_seed(contract.seed)
    vocabulary = data.read_vocabulary(contract.data_dir, settings.vocab_size)
    model = build(settings)
    averaged = copy.deepcopy(model).eval().requires_grad_(False)
    weights, averages = list(model.parameters()), list(averaged.parameters())
    moments = optim.start(weights)
    log.end("init_stop")

    with log.timed() as outcome:
        train = data.read_training(
            contract.data_dir, settings.train_subsets, settings.vocab_size, settings.max_duration
        )
        evaluation = data.read_evaluation(contract.data_dir, settings.eval_subset)
        steps_per_epoch = len(train) // settings.global_batch_size
        if steps_per_epoch == 0:
            stop(f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected at most {len(train)}, the training set")
        log.event("train_samples", steps_per_epoch * settings.global_batch_size)
        log.event("eval_samples", len(evaluation))

        random = torch.Generator().manual_seed(contract.seed)
        load_train = loader(settings, random, settings.speed_min, settings.speed_max)
        load_eval = loader(settings, random, 1.0, 1.0)
        for epoch in range(1, settings.max_epochs + 1):
            log.start("block_start", first_epoch_num=epoch, epoch_count=1)
            log.start("epoch_start", epoch_num=epoch)
            steps = training_steps(train, load_train, settings, [contract.seed, epoch], random)
            for step, parts in enumerate(steps, (epoch - 1) * steps_per_epoch + 1):
                loss = backward(model, parts)
                if not math.isfinite(loss):
                    stop(f"loss is {loss} in step {step}, epoch {epoch}: try a lower BASE_LEARNING_RATE", status=1)
                update(weights, moments, step, steps_per_epoch, settings)
                optim.update_average(averages, weights, settings.ema)
            log.end("epoch_stop", epoch_num=epoch)

            log.start("eval_start", epoch_num=epoch)
            error_rate = evaluate(averaged, evaluation, load_eval, vocabulary, settings)
            log.event("eval_accuracy", error_rate, epoch_num=epoch)
            log.end("eval_stop", epoch_num=epoch)
            log.end("block_stop", first_epoch_num=epoch)
            outcome.reached = error_rate <= settings.target
            if outcome.reached:
                break
    if not outcome.reached:
        stop(
            f"the word error rate is {error_rate:.4f} after {epoch} epochs: TARGET={settings.target} was not met",
            status=1,
        )


def check(contract: Contract, settings: Settings) -> None:
    """End the process with status 2 where it is asked for something it cannot do."""
    if contract.nodes != 1 or contract.gpus:
        stop(f"DGXNNODES={contract.nodes} DGXNGPU={contract.gpus}: expected 1 and 0, one process on the CPU")
    if contract.seed < 0:
        stop(f"SEED={contract.seed}: expected 0 or more")
    for name in ("global_batch_size", "gradient_accumulation_steps", "num_buckets", "eval_batch_size"):
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    if settings.global_batch_size % settings.gradient_accumulation_steps:
        stop(
            f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected a multiple of "
            f"GRADIENT_ACCUMULATION_STEPS={settings.gradient_accumulation_steps}"
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


def build(settings: Settings) -> Transducer:
    """The network of these settings with fresh weights."""
    return Transducer(
        symbols=settings.vocab_size + 1,
        inputs=features.MELS * features.STACKED,
        encoder_hidden=settings.encoder_hidden,
        encoder_pre_layers=settings.encoder_pre_layers,
        encoder_post_layers=settings.encoder_post_layers,
        predictor_hidden=settings.predictor_hidden,
        predictor_layers=settings.predictor_layers,
        joint_hidden=settings.joint_hidden,
        encoder_dropout=settings.encoder_dropout,
        predictor_dropout=settings.predictor_dropout,
        joint_dropout=settings.joint_dropout,
        init_scale=settings.init_scale,
    )


def loader(settings: Settings, random: torch.Generator, speed_min: float, speed_max: float) -> LoadFeatures:
    """A function from a WAV file to its features (frames, 80), with a speed from speed_min .. speed_max each time."""

    def load(path: Path) -> Tensor:
        samples = data.read_wav(path)
        if (speed_min, speed_max) != (1, 1):
            speed = speed_min + (speed_max - speed_min) * torch.rand((), generator=random).item()
            samples = features.resample(samples, speed)
        samples = features.trim_silence(samples)
        return features.log_mel(samples + settings.dither * torch.randn(len(samples), generator=random))

    return functools.cache(load) if settings.cache_features else load


def training_steps(
    utterances: list[data.Utterance],
    load: LoadFeatures,
    settings: Settings,
    order_seed: list[int],
    random: torch.Generator,
) -> Iterator[list[data.Batch]]:
    """One epoch: for each step its global batch, in `gradient_accumulation_steps` equal parts, with masks drawn."""
    seconds = [utterance.seconds for utterance in utterances]
    order = data.epoch_order(
        seconds, settings.global_batch_size, settings.num_buckets, np.random.default_rng(order_seed)
    )
    for indices in order:
        parts = np.split(indices, settings.gradient_accumulation_steps)
        yield [masked_batch([utterances[i] for i in part], load, settings, random) for part in parts]


def masked_batch(
    utterances: list[data.Utterance], load: LoadFeatures, settings: Settings, random: torch.Generator
) -> data.Batch:
    """The utterances with SpecAugment's masks."""
    padded, lengths = data.pad([load(utterance.path) for utterance in utterances])
    masked = features.spec_augment(
        padded,
        lengths,
        random,
        freq_n=settings.freq_masks,
        freq_min=settings.freq_mask_min,
        freq_max=settings.freq_mask_max,
        time_n=settings.time_masks,
        time_min=settings.time_mask_min,
        time_max=settings.time_mask_max,
    )
    return data.collate(masked, lengths, utterances)


def backward(model: Transducer, parts: list[data.Batch]) -> float:
    """Add the gradients of the mean loss over all parts to the weights; gives that loss."""
    total = 0.0
    for batch in parts:
        logits, frames = model(batch.features, batch.lengths, batch.labels)
        loss = transducer_loss(logits, batch.labels, frames, batch.label_counts, model.blank) / len(parts)
        loss.backward()
        total += loss.item()
    return total


def update(weights: list[Tensor], moments: optim.Moments, step: int, steps_per_epoch: int, settings: Settings) -> None:
    """One optimiser step with the gradients of the weights, which it clears."""
    gradients = [weight.grad for weight in weights]
    optim.clip(gradients, settings.clip_norm)
    rate = optim.learning_rate(
        step,
        steps_per_epoch,
        settings.base_learning_rate,
        settings.warmup_epochs,
        settings.hold_epochs,
        settings.gamma,
        settings.min_learning_rate,
    )
    optim.lamb(
        weights,
        gradients,
        moments,
        rate,
        settings.beta_1,
        settings.beta_2,
        settings.epsilon,
        settings.weight_decay,
    )
    for weight in weights:
        weight.grad = None


def evaluate(
    model: Transducer,
    utterances: list[data.Utterance],
    load: LoadFeatures,
    vocabulary: SentencePieceProcessor,
    settings: Settings,
) -> float:
    """Word error rate over all utterances: word edits / words (it may be above 1)."""
    edits = words = 0
    for first in range(0, len(utterances), settings.eval_batch_size):
        some = utterances[first : first + settings.eval_batch_size]
        batch = data.collate(*data.pad([load(utterance.path) for utterance in some]), some)
        labels = decode.greedy(model, batch.features, batch.lengths, settings.max_symbols)
        for hypothesis, utterance in zip(vocabulary.decode(labels), some, strict=True):
            edits += decode.word_edits(hypothesis, utterance.transcript)
            words += len(utterance.transcript.split())
    return edits / words


if __name__ == "__main__":
    main()
