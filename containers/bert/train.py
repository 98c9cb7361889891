"""Train BERT on Wikipedia until its masked-LM accuracy is high enough, and log it as MLPerf Training asks.

Started by `run_and_time.sh`, once for each device; what a run needs from its environment is said in
`common/contract.py`, what can be set in `settings.py` and in `Sizes` of `model.py`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import Callable, Sequence

import checkpoint
import data
import loader
import numpy as np
import optim
import torch
from common import distributed, loading, memory
from common.contract import Contract, read_contract, read_settings, stop
from common.distributed import World
from common.log import Log
from common.steps import watched
from model import Bert, Sizes, initialise, pretraining_loss
from settings import Settings, blocks, check, check_reference, hyperparameters
from torch import Tensor


def main() -> None:
    contract, settings = read_contract(), read_settings(Settings)
    sizes = dataclasses.replace(read_settings(Sizes), vocab_size=data.vocabulary_size(contract.data_dir))
    world = distributed.join(contract)
    check(settings, sizes, world)
    if contract.division == "closed":
        check_reference(settings, sizes)
    run(contract, settings, world, Log(contract, world.rank), lambda: Trainer(contract, settings, sizes, world))
    distributed.leave(world)


def run(contract: Contract, settings: Settings, world: World, log: Log, build: Callable[[], Trainer]) -> None:
    """The whole run and its log. `build` gives what trains and evaluates; a rehearsal gives a stand-in."""
    log.start("init_start")
    log.submission("bert", contract)
    log.event("seed", contract.seed)
    for key, value in hyperparameters(settings).items():
        log.event(key, value)
    trainer = build()
    world.barrier()
    log.end("init_stop")

    with log.timed() as outcome:
        _, eval_samples = trainer.open_data()
        log.event("eval_samples", eval_samples)
        samples = 0
        for steps in blocks(settings):
            first, count = samples, len(steps) * settings.global_batch_size
            log.start("block_start", first_epoch_num=first, epoch_count=count)
            log.start("epoch_start", epoch_num=first)
            loss = trainer.train(steps)
            log.end("epoch_stop", epoch_num=first)
            samples += count
            if not math.isfinite(loss):
                stop(f"the loss is {loss} after {samples} samples: try a lower BASE_LEARNING_RATE", status=1)

            log.start("eval_start", epoch_num=samples)
            accuracy = trainer.evaluate()
            log.event("eval_accuracy", accuracy, epoch_num=samples)
            log.end("eval_stop", epoch_num=samples)
            log.end("block_stop", first_epoch_num=first)
            outcome.reached = world.agree(accuracy >= settings.target)
            if outcome.reached:
                break
        log.event("train_samples", samples)  # for this benchmark the number that it took
    if not outcome.reached:
        stop(f"the accuracy is {accuracy:.4f} after {samples} samples: TARGET={settings.target} was not met", status=1)


class Trainer:
    """The network, its optimiser and the data of one process."""

    def __init__(self, contract: Contract, settings: Settings, sizes: Sizes, world: World) -> None:
        self.contract, self.settings, self.sizes, self.world = contract, settings, sizes, world
        torch.set_float32_matmul_precision("high")  # TF32, on devices that have it
        torch.manual_seed(contract.seed)
        if world.device.type == "cuda":
            check_memory(settings, sizes, world)
        self.network = Bert(sizes)
        if settings.checkpoint:
            checkpoint.start_from(contract.data_dir / settings.checkpoint, self.network)
        else:
            initialise(self.network, sizes.initializer_range)
        self.network.to(world.device)
        names, self.weights = zip(*self.network.named_parameters(), strict=True)
        self.excluded = [optim.is_excluded(name) for name in names]
        self.moments = optim.zero_moments(self.weights)
        self.model = world.replicate(self.network)
        if settings.compile:
            self.model = torch.compile(self.model, mode=settings.compile, dynamic=True)
        if settings.compile or world.device.type == "cuda":
            self.warm_up()
        own = np.random.SeedSequence((contract.seed, world.rank)).generate_state(1)
        torch.manual_seed(int(own[0]))  # of dropout

    def open_data(self) -> tuple[int, int]:
        """Read the evaluation set, begin to read ahead; gives the numbers of training files and of its sequences."""
        contract, settings, world = self.contract, self.settings, self.world
        path = contract.data_dir / "eval" / "part_eval.hdf5"
        evaluation = data.read(path, self.sizes)
        if len(evaluation) != settings.eval_samples:
            expected = f"EVAL_SAMPLES={settings.eval_samples} sequences"
            stop(f"{path}: expected {expected}, found {len(evaluation)}; wrong DATADIR or config")
        width = self.sizes.max_position_embeddings
        size = settings.eval_batch_size
        self.evaluation = loader.evaluation_batches(evaluation, size, world.rank, world.size, width, settings.pack)

        files = data.train_files(contract.data_dir)
        parts = settings.gradient_accumulation_steps * world.size
        cut = loader.Cut(settings.part(world.size), parts, world.rank, world.size)
        ahead = loader.TrainParts(files, self.sizes, cut, contract.seed, settings.pack)
        self.parts = loading.items(loader.loader(ahead, settings.workers, world.device))
        return len(files), len(evaluation)

    def train(self, steps: Sequence[int]) -> float:
        """Take `steps`, counted from 0 over the whole run; gives their mean loss over all processes."""
        self.model.train()
        losses = torch.zeros((), device=self.world.device)
        for step in watched(steps, self.settings.global_batch_size):
            for last in [False] * (self.settings.gradient_accumulation_steps - 1) + [True]:
                losses += self.backward(next(self.parts), last)
            self.update(step)
        return self.world.sum(losses).item() / self.world.size / len(steps)

    def backward(self, batch: loader.Batch, last: bool) -> Tensor:
        """Add the gradient of one part to those of its global batch; returns the part's share of the loss."""
        batch = batch.to(self.world.device)
        with contextlib.nullcontext() if last else self.world.local_gradients(self.model):
            words, following = self.scores(batch)
            loss = pretraining_loss(words, batch.masked_ids, following, batch.next_labels)
            loss = loss / self.settings.gradient_accumulation_steps
            loss.backward()
        return loss.detach()

    def update(self, step: int) -> None:
        """One step of the optimiser with the gradients that are there."""
        settings = self.settings
        gradients = [weight.grad for weight in self.weights]
        optim.clip_by_global_norm(gradients, settings.clip_norm)
        rate = optim.learning_rate_at(
            step,
            settings.base_learning_rate,
            settings.training_steps,
            settings.warmup_steps,
            settings.start_warmup_step,
        )
        optim.lamb_step(
            self.weights,
            gradients,
            self.excluded,
            self.moments,
            learning_rate=rate,
            beta_1=settings.beta_1,
            beta_2=settings.beta_2,
            epsilon=settings.epsilon,
            weight_decay=settings.weight_decay,
        )
        self.model.zero_grad()

    @torch.no_grad()
    def evaluate(self) -> float:
        """The share of masked words that the network finds, pooled over all masked words of all processes."""
        self.model.eval()
        counts = torch.zeros(2, dtype=torch.int64, device=self.world.device)
        for batch in self.evaluation:
            batch = batch.to(self.world.device)
            found = self.scores(batch)[0].argmax(dim=1) == batch.masked_ids
            counts += torch.stack([found.sum(), torch.full_like(counts[0], len(found))])
        correct, total = self.world.sum(counts).tolist()
        return correct / total

    def scores(self, batch: loader.Batch) -> tuple[Tensor, Tensor]:
        """The network's scores of a batch on its device, in the precision that was set."""
        inputs = (batch.input_ids, batch.segments, batch.positions, batch.owners, batch.masked_at, batch.first_at)
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.settings.bf16):
            return self.model(*inputs)

    def warm_up(self) -> None:
        """Compile, and see that it fits: a step without effect, and a look, on the longest sequences; then forget."""
        before = copy.deepcopy(self.network.state_dict())
        settings, sizes = self.settings, self.sizes
        try:
            self.model.train()
            for last in (False, True):
                self.backward(loader.longest(settings.part(self.world.size), sizes), last)
            self.update(settings.training_steps)  # the rate is 0 there
            self.model.eval()
            with torch.no_grad():
                self.scores(loader.longest(settings.eval_batch_size, sizes).to(self.world.device))
        except torch.OutOfMemoryError:
            stop(too_small(settings, sizes, self.world), status=3)
        self.network.load_state_dict(before)
        self.moments = optim.zero_moments(self.weights)


def check_memory(settings: Settings, sizes: Sizes, world: World) -> None:
    """End the process where its GPU cannot hold a step."""
    if torch.cuda.get_device_properties(world.device).total_memory < least_bytes(settings, sizes, world):
        stop(too_small(settings, sizes, world), status=3)


def too_small(settings: Settings, sizes: Sizes, world: World) -> str:
    return (
        f"{memory.of_device(world.device)}: expected more than {memory.gib(least_bytes(settings, sizes, world))} for "
        f"{settings.part(world.size)} sequences at once; set a higher GRADIENT_ACCUMULATION_STEPS "
        f"(now {settings.gradient_accumulation_steps})"
    )


def least_bytes(settings: Settings, sizes: Sizes, world: World) -> int:
    """Bytes that a step on the longest sequences takes at the very least.

    In float32 for each parameter itself, its gradient, two moments and two terms of the update. For each token and
    layer what the way back needs of attention (input, query, key, value, output) and of the feed-forward part (input,
    and both sides of gelu).
    """
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in Bert(sizes).parameters())
    width = 2 if settings.bf16 else 4
    kept = sizes.num_hidden_layers * (6 * sizes.hidden_size + 2 * sizes.intermediate_size)
    return 24 * parameters + width * kept * settings.part(world.size) * sizes.max_position_embeddings


if __name__ == "__main__":
    main()
