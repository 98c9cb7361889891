"""Drawn utterances against the source: FLAC files found by `tarfile`, decoded by libsndfile, WAVs read by `wave`.

The samples are also held to the md5 that the FLAC file states, which no decoder of ours has a part in.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import soundfile

from podium import files
from podium.data.again import Again, Sample

_MD5 = slice(26, 42)  # of the samples, in every FLAC file


@dataclass(frozen=True)
class Held:
    """An utterance as both lists have it: its entry in the first, its tokens in the second."""

    entry: dict[str, Any]
    tokens: list[int]


def rederive(sample: Sample) -> Again:
    """Compare drawn utterances of each subset with the source: samples, transcripts, facts and tokens."""
    vocab_size = sample.content.counts["sentencepiece"]["vocab_size"]
    model = sample.folder / "sentencepieces" / f"librispeech{vocab_size}.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    items, problems = 0, []
    for subset in sample.content.counts["subsets"]:
        held = _drawn(sample, subset)
        items += len(held)
        for key, flac, words in _of_source(sample.source, subset, held.keys()):
            one = held.pop(key)
            wav = sample.folder / one.entry["files"][0]["fname"]
            problems += [f"{wav.name}: {problem}" for problem in _audio(wav, flac, one.entry)]
            if words != one.entry["transcript"]:
                problems.append(f"{wav.name}: expected the words {words!r}, found {one.entry['transcript']!r}")
            if (tokens := processor.encode(words)) != one.tokens:
                problems.append(f"{wav.name}: expected the tokens {tokens}, found {one.tokens}")
        problems += [f"{key}.wav: expected an utterance of {subset} in the source, found none" for key in held]
    return Again(items, problems)


def _drawn(sample: Sample, subset: str) -> dict[str, Held]:
    """Drawn utterances of a subset, by `<speaker>/<chapter>/<id>`."""
    listed = files.read_json(sample.folder / f"librispeech-{subset}-wav.json")
    tokenised = files.read_json(sample.folder / f"librispeech-{subset}-wav-tokenized.json")
    pairs = sample.drawn(list(zip(listed, tokenised, strict=True)))
    found = (Held(entry, ids["tokenized_transcript"]) for entry, ids in pairs)
    return {one.entry["files"][0]["fname"].removeprefix(f"{subset}-wav/").removesuffix(".wav"): one for one in found}


def _of_source(source: Path, subset: str, keys: Any) -> Iterator[tuple[str, bytes, str]]:
    """FLAC file and words, in lower case, of each of the utterances `keys` that the source has."""
    wanted, audio, words = set(keys), {}, {}
    for path, content in _files(source, subset):
        chapter, _, name = path.rpartition("/")
        if name.endswith(".trans.txt"):
            for line in content.decode().splitlines():
                words[f"{chapter}/{line.partition(' ')[0]}"] = line.partition(" ")[2].strip().lower()
        elif (key := path.removesuffix(".flac")) in wanted:
            audio[key] = content
    for key in audio:
        yield key, audio[key], words.get(key, "")


def _files(source: Path, subset: str) -> Iterator[tuple[str, bytes]]:
    """Every file of a subset by its path `<speaker>/<chapter>/<name>`, from the archive or the tree."""
    archive = source / f"{subset}.tar.gz"
    if archive.exists():
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.isfile() and f"/{subset}/" in member.name:
                    yield member.name.partition(f"/{subset}/")[2], tar.extractfile(member).read()
    else:
        top = next(path for path in (source / subset, source / "LibriSpeech" / subset) if path.is_dir())
        for path in top.glob("*/*/*"):
            yield path.relative_to(top).as_posix(), path.read_bytes()


def _audio(path: Path, flac: bytes, entry: dict[str, Any]) -> list[str]:
    """What is wrong with a WAV and its entry."""
    pcm, rate = soundfile.read(io.BytesIO(flac), dtype="int16", always_2d=True)
    problems = []
    if any(flac[_MD5]) and hashlib.md5(pcm, usedforsecurity=False).digest() != flac[_MD5]:
        problems.append("expected samples with the md5 of the FLAC file, found others in the source itself")
    with wave.open(str(path), "rb") as file:
        found = (file.getnchannels(), file.getsampwidth(), file.getframerate())
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    if found != (pcm.shape[1], 2, rate):
        problems.append(f"expected {pcm.shape[1]} channels of 2 bytes at {rate} Hz, found {found}")
    if not np.array_equal(samples, pcm[:, 0]):
        problems.append("expected the samples of the FLAC file, found others")
    facts = (entry["original_num_samples"], entry["original_duration"], entry["files"][0]["silent"])
    # sox: samples have 32 bits, their mean is printed with six decimals and silent below 0.001
    mean = float(np.abs(pcm.astype(np.float64)).mean()) * 2**16 / (2**31 - 1)
    expected = (len(pcm), round(len(pcm) / rate, 6), round(mean, 6) < 0.001)
    if facts != expected:
        problems.append(f"expected samples, seconds and silence to be {expected}, found {facts}")
    return problems
