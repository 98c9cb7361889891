"""Each network's own training steps on one GPU, on generated data that is there already: rate, memory, how busy.

There was no GPU where this was written: untried.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from pathlib import Path
from types import SimpleNamespace

import generated
import numpy as np
import torch
from feeds import FIRST_BAR, PUBLISHED, Row

from implementations.implementation import CONTAINERS, config
from implementations.wikipedia import write_fixed

STEPS = 6
# Floating-point operations to train on one sample (shared with all who publish rates), and what a GPU can do a second.
OPERATIONS = {"resnet": 24.5e9, "rnnt": 0.10e12, "unet3d": 2.86e12, "bert": 0.49e12}
PEAK = 989e12  # of an H100 or H200 in bfloat16, dense


def row(benchmark: str, modules: SimpleNamespace, scratch: Path) -> Row:
    """One GPU with the config for one, against the published rate of an H200 (rnnt: H100)."""
    os.environ |= config(CONTAINERS / benchmark / "configs" / "1xH200.env")
    device = torch.device("cuda", 0)
    world = modules.common.distributed.World(device=device)
    train, samples = TRAINERS[benchmark](modules, world, scratch)
    train()  # the first steps are slower
    torch.cuda.reset_peak_memory_stats(device)
    started = time.monotonic()
    train()
    value = samples / (time.monotonic() - started)
    peak = torch.cuda.max_memory_allocated(device) / 2**30
    share = value * OPERATIONS[benchmark] / PEAK
    print(
        f"bench train: {benchmark} on {torch.cuda.get_device_name(device)}, peak memory {peak:.1f} GiB, "
        f"busy {busy(train):.0%}, {share:.0%} of {PEAK / 1e12:.0f} TFLOP/s"
    )
    return f"{benchmark}-training", value, FIRST_BAR * PUBLISHED[benchmark]


def busy(train) -> float:
    """The share of the time in which kernels of one stream run."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        started = time.monotonic()
        train()
        torch.cuda.synchronize()
        wall = time.monotonic() - started
    return sum(event.self_device_time_total for event in profile.key_averages()) / 1e6 / wall


def settings_of(modules: SimpleNamespace, **changes: object):
    """The settings of the config, which are in the environment."""
    return dataclasses.replace(modules.common.contract.read_settings(modules.settings.Settings), **changes)


def contract(folder: Path = Path()) -> SimpleNamespace:
    return SimpleNamespace(seed=1, data_dir=folder, division="open")


def resnet(modules: SimpleNamespace, world, scratch: Path):
    settings = settings_of(modules)
    settings = dataclasses.replace(settings, train_samples=STEPS * settings.global_batch_size)
    part, size = settings.part(1), settings.image_size
    pictures = torch.randint(256, (part, 3, size, size), dtype=torch.uint8)
    trainer = modules.train.Trainer(contract(), settings, world)
    trainer.train_parts = itertools.repeat((pictures, torch.randint(settings.classes, (part,))))
    return lambda: trainer.train(1), STEPS * settings.global_batch_size


def unet3d(modules: SimpleNamespace, world, scratch: Path):
    settings = settings_of(modules)
    settings = dataclasses.replace(settings, train_samples=STEPS * settings.global_batch_size)
    part, shape = settings.part(1), settings.training_input_shape
    trainer = modules.train.Trainer(contract(), settings, world)
    labels = torch.randint(3, (part, *shape), dtype=torch.uint8)
    trainer.train_parts = itertools.repeat((torch.randn(part, 1, *shape), labels))
    return lambda: trainer.train(1), STEPS * settings.global_batch_size


def rnnt(modules: SimpleNamespace, world, scratch: Path):
    settings = settings_of(modules)
    modules.data.read_vocabulary = lambda folder, size: None  # nothing is decoded into words
    modules.train.Trainer.transcribe = lambda trainer, batch: []
    trainer = modules.train.Trainer(contract(), settings, world)
    part, frames = settings.part(1), int(100 * generated.SECONDS)
    said = [modules.data.Utterance(Path(), generated.SECONDS, (0,) * generated.LABELS)] * part
    noise = torch.randn(part, frames, modules.features.MELS)
    batch = modules.loader.collate(noise, torch.full((part,), frames), said, range(part), settings)
    trainer.training = itertools.repeat(batch.to(world.device))
    trainer.steps_per_epoch = STEPS
    return lambda: trainer.train(1), STEPS * settings.global_batch_size


def bert(modules: SimpleNamespace, world, scratch: Path):
    settings, sizes = settings_of(modules, checkpoint=""), modules.model.Sizes()
    part = settings.part(1)
    path = scratch / "rows.hdf5"
    write_fixed(path, generated.sequences(part))
    rows = modules.data.read(path, sizes)
    batch = modules.loader.evaluation_batches(rows, part, 0, 1, sizes.max_position_embeddings, settings.pack)[0]
    tokens = np.diff(rows.tokens).mean()
    print(f"bench train: bert trains on {part} sequences of {tokens:.0f} tokens in {len(batch.input_ids)} rows")
    trainer = modules.train.Trainer(contract(), settings, sizes, world)
    trainer.parts = itertools.repeat(batch.to(world.device))
    return lambda: trainer.train(range(STEPS)), STEPS * settings.global_batch_size


TRAINERS = {"resnet": resnet, "rnnt": rnnt, "unet3d": unet3d, "bert": bert}
