"""LibriSpeech as `podium prepare` lays it out (layout `wav`): lists of utterances, their order and their sound.

librispeech-<subset>-wav.json            [{transcript, files: [{fname}], original_duration}]
librispeech-<subset>-wav-tokenized.json  [{fname, original_duration, tokenized_transcript}]
<subset>-wav/<speaker>/<chapter>/*.wav   16 kHz, mono, 16 bit
sentencepieces/librispeech<vocab>.model  from numbers to words
"""

from __future__ import annotations

import json
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from common.contract import stop
from features import FFT_SIZE, SAMPLE_RATE
from torch import Tensor


@dataclass(frozen=True)
class Utterance:
    """What is said where: `labels` to train on (training subsets), `transcript` to compare with (evaluation)."""

    path: Path
    seconds: float
    labels: tuple[int, ...] = ()
    transcript: str = ""


def read_vocabulary(data_dir: Path, size: int) -> sentencepiece.SentencePieceProcessor:
    """The sentencepiece model of `size` pieces; ends the process with status 2 where it is not there."""
    path = data_dir / "sentencepieces" / f"librispeech{size}.model"
    if not path.is_file():
        stop(f"{path}: expected the sentencepiece model, found nothing; prepare the data with vocab_size {size}")
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def read_training(data_dir: Path, subsets: tuple[str, ...], vocab_size: int, max_seconds: float) -> list[Utterance]:
    """The tokenised utterances of all subsets, those longer than `max_seconds` left out."""
    utterances = []
    for subset in subsets:
        for entry in _read_list(data_dir / f"librispeech-{subset}-wav-tokenized.json"):
            labels = tuple(entry["tokenized_transcript"])
            if max(labels, default=0) >= vocab_size:
                stop(
                    f"{subset}: expected labels below {vocab_size}, found {max(labels)} for {entry['fname']}; "
                    "VOCAB_SIZE must be the vocab_size that the data was prepared with"
                )
            if entry["original_duration"] <= max_seconds:
                utterances.append(Utterance(data_dir / entry["fname"], entry["original_duration"], labels=labels))
    return utterances


def read_evaluation(data_dir: Path, subset: str) -> list[Utterance]:
    """All utterances of the subset with their transcripts, in the order of the list."""
    return [
        Utterance(data_dir / entry["files"][-1]["fname"], entry["original_duration"], transcript=entry["transcript"])
        for entry in _read_list(data_dir / f"librispeech-{subset}-wav.json")
    ]


def epoch_order(seconds: list[float], batch_size: int, buckets: int, random: np.random.Generator) -> np.ndarray:
    """Indices (steps, batch_size) of one epoch (reference: common/data/dali/sampler.py).

    Sorted by duration and cut into `buckets`; shuffled within each bucket; a random rest that fills no batch is left
    out; then the batches are shuffled.
    """
    by_length = np.array_split(np.argsort(seconds, kind="stable"), buckets)
    order = np.concatenate([random.permutation(bucket) for bucket in by_length])
    left_out = random.choice(len(order), len(order) % batch_size, replace=False)
    return random.permutation(np.delete(order, left_out).reshape(-1, batch_size))


def read_wav(path: Path) -> Tensor:
    """Samples in [-1, 1) of a 16 kHz, mono, 16 bit WAV file; ends the process with status 2 where it is not one."""
    try:
        with wave.open(str(path)) as file:
            shape = file.getframerate(), file.getnchannels(), 8 * file.getsampwidth()
            pcm = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        stop(f"{path}: expected a WAV file, found: {error}; prepare the data again")
    if shape != (SAMPLE_RATE, 1, 16) or len(pcm) < 2 * FFT_SIZE:
        found = "{} Hz, {} channels, {} bit".format(*shape) + f", {len(pcm)} bytes"
        stop(f"{path}: expected 16000 Hz, 1 channel, 16 bit, {2 * FFT_SIZE} bytes or more, found {found}")
    return torch.from_numpy(np.frombuffer(pcm, "<i2").astype(np.float32) / 32768)


def _read_list(path: Path) -> list[dict]:
    if not path.is_file():
        stop(f"{path}: expected the list that `podium prepare librispeech --layout wav` writes, found nothing")
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not entries:
        stop(f"{path}: expected utterances, found an empty list; prepare the data again")
    return entries
