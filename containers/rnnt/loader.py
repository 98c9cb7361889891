"""Batches of features: the same for a seed, whatever the number of processes and of loader workers.

A batch is a part of a global batch. Everything random in it comes from the seed, the epoch and its utterances alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import data
import features
import numpy as np
import torch
from common import loading
from model import Group, stack_frames
from settings import Settings
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PARTS_AHEAD = 4  # for each loader worker
LABELS_PER_SECOND = 8  # no utterance has more: fast speech is 20 letters a second, two or more to a word piece


class Key(NamedTuple):
    """What a batch is made of: utterances, and the epoch that draws their speed and masks; epoch 0 draws neither."""

    epoch: int
    indices: tuple[int, ...]


class Batch(NamedTuple):
    """features (time, batch, 240) with lengths (batch); labels (batch, U) with label_counts (batch).

    `indices` are the utterances, the largest first; `groups` cut them up for the joint network.
    """

    features: Tensor
    lengths: Tensor
    labels: Tensor
    label_counts: Tensor
    indices: list[int]
    groups: list[Group]

    def to(self, device: torch.device) -> Batch:
        tensors = (tensor.to(device, non_blocking=True) for tensor in self[:4])
        return Batch(*tensors, self.indices, self.groups)


def training_keys(utterances: Sequence[data.Utterance], settings: Settings, seed: int, parts: slice) -> Iterator[Key]:
    """This process's parts of every global batch of all epochs, in order.

    A global batch is dealt out like cards to all parts (reference: common/data/dali/sampler.py); `parts` are those of
    this process, its first, the number of all, and its distance to the next.
    """
    seconds = [utterance.seconds for utterance in utterances]
    for epoch in range(1, settings.max_epochs + 1):
        random = np.random.default_rng([seed, epoch])
        for batch in data.epoch_order(seconds, settings.global_batch_size, settings.num_buckets, random):
            for part in range(parts.start, parts.stop, parts.step):
                yield Key(epoch, tuple(batch[part :: parts.stop].tolist()))


def evaluation_keys(utterances: Sequence[data.Utterance], size: int, rank: int, processes: int) -> list[Key]:
    """This process's batches of one evaluation: every utterance is in one batch of one process.

    The longest come first and batches hold what is equally long, whatever the number of processes.
    """
    longest_first = sorted(range(len(utterances)), key=lambda i: -utterances[i].seconds)
    batches = [tuple(longest_first[first : first + size]) for first in range(0, len(longest_first), size)]
    return [Key(0, batch) for batch in batches[rank::processes]]


@dataclass(frozen=True)
class Speech(Dataset):
    """Utterances as batches of features, each made from its key."""

    utterances: Sequence[data.Utterance]
    settings: Settings
    seed: int

    def __getitem__(self, key: Key) -> Batch:
        settings = self.settings
        padded, lengths = pad([self.features(key.epoch, index) for index in key.indices])
        if key.epoch:
            padded = features.spec_augment(
                padded,
                lengths,
                stream(self.seed, key.epoch, *key.indices),
                freq_n=settings.freq_masks,
                freq_min=settings.freq_mask_min,
                freq_max=settings.freq_mask_max,
                time_n=settings.time_masks,
                time_min=settings.time_mask_min,
                time_max=settings.time_mask_max,
            )
        return collate(padded, lengths, self.utterances, key.indices, settings)

    def features(self, epoch: int, index: int) -> Tensor:
        """(frames, 80) of one utterance, with a speed drawn for the epoch."""
        path, settings = self.utterances[index].path, self.settings
        if settings.cache_features:
            return _kept(path)
        random = stream(self.seed, epoch, index)
        samples = data.read_wav(path)
        if epoch and (settings.speed_min, settings.speed_max) != (1, 1):
            speed = torch.empty(()).uniform_(settings.speed_min, settings.speed_max, generator=random).item()
            samples = features.resample(samples, speed)
        samples = features.trim_silence(samples)
        return features.log_mel(samples + settings.dither * torch.randn(len(samples), generator=random))


def batches(speech: Speech, keys: Iterable[Key], device: torch.device) -> Iterator[Batch]:
    """The batch of each key in order, made ahead by the loader workers, on the device."""
    workers = speech.settings.workers
    loader = DataLoader(
        speech,
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        worker_init_fn=loading.end_with_parent,
        prefetch_factor=PARTS_AHEAD if workers else None,
        pin_memory=device.type == "cuda",
    )
    return (batch.to(device) for batch in loading.items(loader))


@functools.cache
def _kept(path: Path) -> Tensor:
    return features.log_mel(features.trim_silence(data.read_wav(path)))


def longest(settings: Settings) -> tuple[int, int]:
    """Frames and labels of the longest utterance that there can be in training."""
    samples = int(settings.max_duration * settings.speed_max * features.SAMPLE_RATE)
    return 1 + samples // features.HOP, int(settings.max_duration * LABELS_PER_SECOND)


def largest(settings: Settings, size: int) -> Batch:
    """Noise for `size` of the longest utterances, to warm up on."""
    frames, labels = longest(settings)
    noise, lengths = torch.randn(size, frames, features.MELS), torch.full((size,), frames)
    utterances = [data.Utterance(Path(), settings.max_duration, (0,) * labels)] * size
    return collate(noise, lengths, utterances, range(size), settings)


def stream(*numbers: int) -> torch.Generator:
    """A generator of its own for these numbers."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def pad(sequences: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Sequences of unequal length as one tensor, batch first, with zeros after the shorter ones; and their lengths."""
    return pad_sequence(sequences, batch_first=True), torch.tensor([len(sequence) for sequence in sequences])


def collate(
    padded: Tensor, lengths: Tensor, utterances: Sequence[data.Utterance], indices: Sequence[int], settings: Settings
) -> Batch:
    """A batch from padded features (batch, frames, 80): three frames become one input of the network."""
    lengths = -(-lengths // features.STACKED)
    labels, counts = pad([torch.tensor(utterances[index].labels, dtype=torch.long) for index in indices])
    frames = -(-lengths // settings.encoder_stack)
    order = (frames * (counts + 1)).argsort(descending=True, stable=True)
    return Batch(
        stack_frames(padded[order].transpose(0, 1), features.STACKED),
        lengths[order],
        labels[order],
        counts[order],
        [indices[i] for i in order],
        groups(frames[order].tolist(), counts[order].tolist(), settings.joint_places),
    )


def groups(frames: Sequence[int], labels: Sequence[int], places: int) -> list[Group]:
    """Neighbours in as few groups as have at most `places` places each; one utterance alone may have more."""
    found: list[Group] = []
    for index, (t, u) in enumerate(zip(frames, labels, strict=True)):
        first, _, widest, most = found[-1] if found else (index, index, 0, 0)
        widest, most = max(widest, t), max(most, u)
        if found and (index + 1 - first) * widest * (most + 1) <= places:
            found[-1] = Group(first, index + 1, widest, most)
        else:
            found.append(Group(index, index + 1, t, u))
    return found
