"""Train BERT on Wikipedia until its masked-LM accuracy is high enough, and log it as MLPerf Training asks.

Started by `run_and_time.sh`; what a run needs from its environment is said in `common/contract.py`, what can be set
is `Settings` below and `Sizes` in `model.py`, one upper-case variable each (`configs/*.env`). One process, on the CPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import data
import optim
import torch
from common.contract import Contract, read_contract, read_settings, stop
from common.log import Log
from common.steps import watched
from model import Bert, Sizes, initialise, pretraining_loss
from torch import Tensor


@dataclass(frozen=True)
class Settings:
    """Defaults: the reference's hyperparameters for a global batch of 448 sequences."""

    global_batch_size: int = 448
    gradient_accumulation_steps: int = 16
    base_learning_rate: float = 4.25e-4
    training_steps: int = 6700  # the learning rate has come down to 0 then, so a run ends here at the latest
    warmup_steps: int = 0
    start_warmup_step: int = 0  # 0 or negative
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    target: float = 0.72  # masked-LM accuracy
    eval_interval: int = 0  # samples; 0 is the rules' formula, see `reference_interval`
    eval_batch_size: int = 32  # the accuracy does not depend on it


def main() -> None:
    contract, settings = read_contract(), read_settings(Settings)
    sizes = dataclasses.replace(read_settings(Sizes), vocab_size=data.vocabulary_size(contract.data_dir))
    check(contract, settings, sizes)
    log = Log(contract)

    log.start("init_start")
    log.submission("bert", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings).items():
        log.event(key, value)
    torch.manual_seed(contract.seed)
    model = Bert(sizes)
    initialise(model, sizes.initializer_range)
    moments = optim.zero_moments(list(model.parameters()))
    log.end("init_stop")

    with log.timed() as outcome:
        evaluation = data.read_rows(contract.data_dir / "eval" / "part_eval.hdf5", sizes)
        log.event("eval_samples", len(evaluation["input_ids"]))
        files = data.train_files(contract.data_dir)
        batches = data.training_batches(files, settings.global_batch_size, sizes, contract.seed)

        samples = 0
        for steps in blocks(settings):
            first, count = samples, len(steps) * settings.global_batch_size
            log.start("block_start", first_epoch_num=first, epoch_count=count)
            log.start("epoch_start", epoch_num=first)
            loss = train(model, moments, batches, steps, settings)
            log.end("epoch_stop", epoch_num=first)
            samples += count
            if not math.isfinite(loss):
                stop(f"the loss is {loss} after {samples} samples: try a lower BASE_LEARNING_RATE", status=1)

            log.start("eval_start", epoch_num=samples)
            accuracy = masked_accuracy(model, data.evaluation_batches(evaluation, settings.eval_batch_size))
            log.event("eval_accuracy", accuracy, epoch_num=samples)
            log.end("eval_stop", epoch_num=samples)
            log.end("block_stop", first_epoch_num=first)
            outcome.reached = accuracy >= settings.target
            if outcome.reached:
                break
        log.event("train_samples", samples)  # for this benchmark the number that it took
    if not outcome.reached:
        stop(f"the accuracy is {accuracy:.4f} after {samples} samples: TARGET={settings.target} was not met", status=1)


def check(contract: Contract, settings: Settings, sizes: Sizes) -> None:
    """End the process with status 2 where it is asked for something it cannot do."""
    if contract.nodes != 1 or contract.gpus:
        stop(f"DGXNNODES={contract.nodes} DGXNGPU={contract.gpus}: expected 1 and 0, one process on the CPU")
    if contract.seed < 0:
        stop(f"SEED={contract.seed}: expected 0 or more")
    for name in ("global_batch_size", "gradient_accumulation_steps", "training_steps", "eval_batch_size"):
        if getattr(settings, name) < 1:
            stop(f"{name.upper()}={getattr(settings, name)}: expected 1 or more")
    if settings.global_batch_size % settings.gradient_accumulation_steps:
        stop(
            f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected a multiple of "
            f"GRADIENT_ACCUMULATION_STEPS={settings.gradient_accumulation_steps}"
        )
    if settings.eval_interval < 0:
        stop(f"EVAL_INTERVAL={settings.eval_interval}: expected 0 or more")
    if settings.start_warmup_step > 0:
        stop(f"START_WARMUP_STEP={settings.start_warmup_step}: expected 0 or a negative number")
    if sizes.hidden_size % sizes.num_attention_heads:
        stop(f"HIDDEN_SIZE={sizes.hidden_size}: expected a multiple of NUM_ATTENTION_HEADS={sizes.num_attention_heads}")


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


def train(
    model: Bert, moments: optim.Moments, batches: Iterator[data.Batch], steps: Sequence[int], settings: Settings
) -> float:
    """Take `steps`, counted from 0, each on the next batch; gives their mean loss."""
    model.train()
    names, parameters = zip(*model.named_parameters(), strict=True)
    excluded = [optim.is_excluded(name) for name in names]
    losses = []
    for step in watched(steps, settings.global_batch_size):
        model.zero_grad()
        losses.append(backward(model, next(batches), settings.gradient_accumulation_steps))
        gradients = [parameter.grad for parameter in parameters]
        optim.clip_by_global_norm(gradients, settings.clip_norm)
        optim.lamb_step(
            parameters,
            gradients,
            excluded,
            moments,
            learning_rate=optim.learning_rate_at(
                step,
                settings.base_learning_rate,
                settings.training_steps,
                settings.warmup_steps,
                settings.start_warmup_step,
            ),
            beta_1=settings.beta_1,
            beta_2=settings.beta_2,
            epsilon=settings.epsilon,
            weight_decay=settings.weight_decay,
        )
    return torch.stack(losses).mean().item()


def backward(model: Bert, batch: data.Batch, accumulation_steps: int) -> Tensor:
    """Add the gradient of the mean of the parts' losses to the parameters; gives that mean, detached."""
    total = torch.zeros(())
    for part in batch.split(accumulation_steps):
        hidden = model.encode(part.input_ids, part.input_mask, part.segment_ids)
        loss = pretraining_loss(
            model.masked_language_scores(hidden, part.masked_lm_positions),
            part.masked_lm_ids,
            part.masked_lm_weights,
            model.next_sentence_scores(hidden),
            part.next_sentence_labels,
        )
        (loss / accumulation_steps).backward()
        total += loss.detach() / accumulation_steps
    return total


@torch.no_grad()
def masked_accuracy(model: Bert, batches: Iterable[data.Batch]) -> float:
    """The share of masked words that the model finds, pooled over all masked words of all batches."""
    model.eval()
    correct = total = 0
    for batch in batches:
        hidden = model.encode(batch.input_ids, batch.input_mask, batch.segment_ids)
        found = model.masked_language_scores(hidden, batch.masked_lm_positions).argmax(dim=2)
        correct += ((found == batch.masked_lm_ids) & batch.masked_lm_weights).sum().item()
        total += batch.masked_lm_weights.sum().item()
    return correct / total


if __name__ == "__main__":
    main()
