"""Train the transducer on LibriSpeech until its word error rate is low enough, and log it as MLPerf Training asks.

Started by `run_and_time.sh`, once for each device; what a run needs from its environment is said in
`common/contract.py`, what can be set in `settings.py`.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Protocol

import data
import decode
import features
import loader
import optim
import torch
from common import distributed, memory
from common.contract import Contract, keep_reference, read_contract, read_settings, stop
from common.distributed import World
from common.log import Log
from common.steps import watched
from loss import transducer_loss
from model import Transducer
from settings import REFERENCE, Settings, check, hyperparameters
from torch import Tensor

# In the closed division: utterances of at most 16.7 s, as many as all published runs can have had; dev-clean.
REFERENCE_TRAINING, REFERENCE_EVALUATION = range(278_528, 279_040), 2703
CHECK_EVERY = 50  # steps between two looks at the loss, each of which waits for the device


class Trains(Protocol):
    """What `run` asks of a trainer, or of what stands in for it when a log is rehearsed (rehearse.py)."""

    def open_data(self) -> tuple[int, int]:
        """Open the data; gives the numbers of utterances to train on and to evaluate."""

    def train(self, epoch: int) -> float:
        """Train for one epoch, counted from 1; gives its mean loss, or one that is not a number as soon as it is."""

    def evaluate(self) -> float:
        """The word error rate."""


def main() -> None:
    contract, settings = read_contract(), read_settings(Settings)
    world = distributed.join(contract)
    check(settings, world)
    if contract.division == "closed":
        keep_reference(settings, REFERENCE)
    run(contract, settings, world, Log(contract, world.rank), lambda: Trainer(contract, settings, world))
    distributed.leave(world)


def run(contract: Contract, settings: Settings, world: World, log: Log, build: Callable[[], Trains]) -> None:
    """One run from init_start to run_stop; ends the process with status 1 where it does not meet the target."""
    log.start("init_start")
    log.submission("rnnt", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings).items():
        log.event(key, value)
    trainer = build()
    world.barrier()
    log.end("init_stop")

    with log.timed() as outcome:
        training, evaluation = trainer.open_data()
        log.event("train_samples", training // settings.global_batch_size * settings.global_batch_size)
        log.event("eval_samples", evaluation)
        for epoch in range(1, settings.max_epochs + 1):
            log.start("block_start", first_epoch_num=epoch, epoch_count=1)
            log.start("epoch_start", epoch_num=epoch)
            loss = trainer.train(epoch)
            log.end("epoch_stop", epoch_num=epoch)
            if not math.isfinite(loss):
                stop(f"the loss is {loss} in epoch {epoch}: try a lower BASE_LEARNING_RATE", status=1)

            log.start("eval_start", epoch_num=epoch)
            error_rate = trainer.evaluate()
            log.event("eval_accuracy", error_rate, epoch_num=epoch)
            log.end("eval_stop", epoch_num=epoch)
            log.end("block_stop", first_epoch_num=epoch)
            outcome.reached = error_rate <= settings.target
            if outcome.reached:
                break
    if not outcome.reached:
        missed = f"the word error rate is {error_rate:.4f} after {epoch} epochs: TARGET={settings.target} was not met"
        stop(missed, status=1)


class Trainer:
    """The network, its average and its optimiser in one of the processes of a run."""

    def __init__(self, contract: Contract, settings: Settings, world: World) -> None:
        self.contract, self.settings, self.world = contract, settings, world
        torch.set_float32_matmul_precision("high")  # TF32, on devices that have it
        torch.manual_seed(contract.seed)
        self.vocabulary = data.read_vocabulary(contract.data_dir, settings.vocab_size)
        self.model = network(settings)
        if world.device.type == "cuda":
            check_memory(self.model, settings, world)
        self.averaged = copy.deepcopy(self.model).eval().requires_grad_(False).to(world.device)
        self.model.to(world.device)
        if settings.compile:
            self.model.align = torch.compile(self.model.align, mode=settings.compile, dynamic=True)
        self.weights, self.averages = list(self.model.parameters()), list(self.averaged.parameters())
        self.replica = world.replicate(self.model)
        self.moments = optim.start(self.weights)
        if settings.compile or world.device.type == "cuda":
            self.warm_up()
        torch.manual_seed(loader.stream(contract.seed, world.rank).initial_seed())  # of dropout

    def warm_up(self) -> None:
        """Train and decode noise of the largest size, so that all is compiled and fits; then forget it."""
        before = copy.deepcopy(self.model.state_dict())
        part = loader.largest(self.settings, self.settings.part(self.world.size)).to(self.world.device)
        self.steps_per_epoch = 1
        try:
            self.step(1, [part] * self.settings.gradient_accumulation_steps)
            self.transcribe(part)
        except torch.OutOfMemoryError:
            stop(too_small(self.model, self.settings, self.world), status=3)
        self.model.load_state_dict(before)
        self.averaged.load_state_dict(before)
        self.moments = optim.start(self.weights)

    def open_data(self) -> tuple[int, int]:
        """Read the lists of utterances, and begin to read their sound ahead."""
        settings, world, seed = self.settings, self.world, self.contract.seed
        folder = self.contract.data_dir
        training = data.read_training(folder, settings.train_subsets, settings.vocab_size, settings.max_duration)
        evaluation = data.read_evaluation(folder, settings.eval_subset)
        if len(training) < settings.global_batch_size:
            stop(f"GLOBAL_BATCH_SIZE={settings.global_batch_size}: expected at most {len(training)}, the training set")
        if self.contract.division == "closed":
            check_reference(len(training), len(evaluation))
        self.steps_per_epoch = len(training) // settings.global_batch_size
        self.transcripts = [utterance.transcript for utterance in evaluation]

        speech = loader.Speech(training, settings, seed)
        parts = settings.gradient_accumulation_steps * world.size
        keys = loader.training_keys(training, settings, seed, slice(world.rank, parts, world.size))
        self.training = loader.batches(speech, keys, world.device)

        speech = loader.Speech(evaluation, settings, seed)
        keys = loader.evaluation_keys(evaluation, settings.eval_batch_size, world.rank, world.size)
        self.evaluation_batches = len(keys)
        self.evaluation = loader.batches(speech, itertools.cycle(keys), world.device)
        return len(training), len(evaluation)

    def train(self, epoch: int) -> float:
        total = torch.zeros((), device=self.world.device)
        for number in watched(range(1, self.steps_per_epoch + 1), self.settings.global_batch_size):
            parts = itertools.islice(self.training, self.settings.gradient_accumulation_steps)
            total += self.step((epoch - 1) * self.steps_per_epoch + number, parts)
            if number % CHECK_EVERY == 0 or number == self.steps_per_epoch:
                mean = self.world.sum(total.clone()).item() / (number * self.world.size)
                if not math.isfinite(mean):
                    break
        return mean

    def step(self, step: int, parts: Iterable[loader.Batch]) -> Tensor:
        """One optimiser step, counted from 1, with the mean gradient of all processes' parts; gives the mean loss."""
        settings = self.settings
        loss = self.backward(parts)
        gradients = [weight.grad for weight in self.weights]
        optim.clip(gradients, settings.clip_norm)
        rate = optim.learning_rate(
            step,
            self.steps_per_epoch,
            settings.base_learning_rate,
            settings.warmup_epochs,
            settings.hold_epochs,
            settings.gamma,
            settings.min_learning_rate,
        )
        optim.lamb(
            self.weights,
            gradients,
            self.moments,
            rate,
            settings.beta_1,
            settings.beta_2,
            settings.epsilon,
            settings.weight_decay,
        )
        optim.update_average(self.averages, self.weights, settings.ema)
        for weight in self.weights:
            weight.grad = None
        return loss

    def backward(self, parts: Iterable[loader.Batch]) -> Tensor:
        """Leave the mean gradient of the parts of all processes in the weights; gives the mean loss of this one's."""
        total, count = torch.zeros((), device=self.world.device), self.settings.gradient_accumulation_steps
        for number, part in enumerate(parts, 1):
            alone = number < count
            with self.world.local_gradients(self.replica) if alone else contextlib.nullcontext():
                with self.autocast():
                    alignments = self.replica(part.features, part.lengths, part.labels, part.groups)
                loss = transducer_loss(*alignments, part.label_counts) / count
                loss.backward()
            total += loss.detach()
        return total

    def evaluate(self) -> float:
        edits = words = 0
        for batch in itertools.islice(self.evaluation, self.evaluation_batches):
            for hypothesis, index in zip(self.transcribe(batch), batch.indices, strict=True):
                edits += decode.word_edits(hypothesis, self.transcripts[index])
                words += len(self.transcripts[index].split())
        edits, words = self.world.sum(torch.tensor([edits, words], device=self.world.device)).tolist()
        return edits / words

    @torch.no_grad()
    def transcribe(self, batch: loader.Batch) -> list[str]:
        """What the average of the weights hears."""
        with self.autocast():
            encoded, frames = self.averaged.encode(batch.features, batch.lengths)
        encoded = encoded.to(self.averages[0].dtype)
        labels = decode.greedy(self.averaged, encoded, frames, self.settings.max_symbols)
        return self.vocabulary.decode(labels)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.settings.bf16)


def check_memory(model: Transducer, settings: Settings, world: World) -> None:
    """End the process where its GPU cannot hold a step."""
    if torch.cuda.get_device_properties(world.device).total_memory < least_bytes(model, settings, world):
        stop(too_small(model, settings, world), status=3)


def too_small(model: Transducer, settings: Settings, world: World) -> str:
    return (
        f"{memory.of_device(world.device)}: expected more than {memory.gib(least_bytes(model, settings, world))} for "
        f"{settings.part(world.size)} utterances at once; set a higher GRADIENT_ACCUMULATION_STEPS "
        f"(now {settings.gradient_accumulation_steps}) or a lower JOINT_PLACES (now {settings.joint_places})"
    )


def least_bytes(model: Transducer, settings: Settings, world: World) -> int:
    """Bytes that a step takes at the very least.

    For each parameter itself, its gradient, two moments and its average, in float32; what each LSTM layer of the
    encoder keeps for the way back: four gates, cell and output; one group of logits, and in float32 too.
    """
    width, size = 2 if settings.bf16 else 4, settings.part(world.size)
    frames, labels = loader.longest(settings)
    steps = -(-frames // features.STACKED)
    stacked = -(-steps // settings.encoder_stack)
    kept = settings.encoder_hidden * (settings.encoder_pre_layers * steps + settings.encoder_post_layers * stacked)
    utterances = max(settings.joint_places // (stacked * (labels + 1)), 1)
    joint = min(utterances, size) * stacked * (labels + 1) * (settings.vocab_size + 1)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return 20 * parameters + 6 * width * size * kept + (width + 4) * joint


def check_reference(training: int, evaluation: int) -> None:
    """End the process where a closed run would not be on the benchmark's data."""
    if training not in REFERENCE_TRAINING or evaluation != REFERENCE_EVALUATION:
        stop(
            f"MLPERF_DIVISION=closed: expected {REFERENCE_TRAINING.start} to {REFERENCE_TRAINING.stop - 1} utterances "
            f"of at most 16.7 s and {REFERENCE_EVALUATION} to evaluate, found {training} and {evaluation}; prepare "
            "LibriSpeech again, or set MLPERF_DIVISION=open"
        )


def network(settings: Settings) -> Transducer:
    """The network of these settings with fresh weights."""
    return Transducer(
        symbols=settings.vocab_size + 1,
        inputs=features.MELS * features.STACKED,
        encoder_hidden=settings.encoder_hidden,
        encoder_pre_layers=settings.encoder_pre_layers,
        encoder_post_layers=settings.encoder_post_layers,
        encoder_stack=settings.encoder_stack,
        predictor_hidden=settings.predictor_hidden,
        predictor_layers=settings.predictor_layers,
        joint_hidden=settings.joint_hidden,
        encoder_dropout=settings.encoder_dropout,
        predictor_dropout=settings.predictor_dropout,
        joint_dropout=settings.joint_dropout,
        init_scale=settings.init_scale,
    )


if __name__ == "__main__":
    main()
