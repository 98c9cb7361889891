"""What must hold for a prepared LibriSpeech of any size, checked without its source."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from podium import files
from podium.data.formats import wav
from podium.data.librispeech import tokens
from podium.data.librispeech.convert import MAX_DURATION, RATE, UP_TO_MAX, Utterance, hours
from podium.data.librispeech.source import TRAIN

WORDS = re.compile("[a-z' ]+")


@dataclass(frozen=True)
class Listed:
    """One utterance as both lists of a subset have it."""

    fname: str
    transcript: str
    samples: int
    duration: float
    tokens: Sequence[int]


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Every way in which the layout below `folder` is not what `prepare` counted, one sentence each.

    Looks at the lists, at the header and size of every WAV and at the tokens; whether a byte changed is told by the
    hashes in the manifest.
    """
    problems: list[str] = []
    subsets: dict[str, list[Listed]] = {}
    for name, expected in counts["subsets"].items():
        list_path = folder / f"librispeech-{name}-wav.json"
        tokens_path = folder / f"librispeech-{name}-wav-tokenized.json"
        try:
            subsets[name] = _listed(files.read_json(list_path), files.read_json(tokens_path))
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            problems.append(f"{tokens_path.name}: expected the utterances of {list_path.name}, found {error!r}")
            continue
        problems += _count_problems(list_path.name, subsets[name], expected)
        problems += _audio_problems(folder, name, subsets[name])
        problems += _pickle_problems(folder / f"{tokens_path.stem}.pkl", tokens_path)
    problems += _shared_ids(subsets)
    problems += _training_text(counts["sentencepiece"], subsets)
    problems += _token_problems(folder, counts["sentencepiece"]["vocab_size"], subsets)
    return problems


def _listed(entries: list[Any], tokenised: list[Any]) -> list[Listed]:
    """Raises ValueError, KeyError, TypeError or IndexError when a list is not one, or not of the same utterances."""
    listed = []
    for entry, ids in zip(entries, tokenised, strict=True):
        (file,) = entry["files"]
        fname = file["fname"]
        if (fname, entry["original_duration"]) != (ids["fname"], ids["original_duration"]):
            raise ValueError(f"{fname} in one list, {ids['fname']} in the other")
        utterance = Utterance(fname, entry["transcript"], entry["original_num_samples"], file["silent"])
        if entry != json.loads(utterance.entry()):
            raise ValueError(f"{fname} with other facts than those of {utterance.samples} samples")
        listed.append(
            Listed(
                fname=fname,
                transcript=entry["transcript"],
                samples=entry["original_num_samples"],
                duration=entry["original_duration"],
                tokens=ids["tokenized_transcript"],
            )
        )
    return listed


def _count_problems(name: str, listed: Sequence[Listed], expected: Mapping[str, Any]) -> list[str]:
    found = {
        "utterances": len(listed),
        "samples": sum(utterance.samples for utterance in listed),
        "hours": hours(sum(utterance.samples for utterance in listed)),
        UP_TO_MAX: sum(utterance.duration <= MAX_DURATION for utterance in listed),
        "tokens": sum(len(utterance.tokens) for utterance in listed),
    }
    problems = [
        f"{name}: expected {expected[what]} {what}, found {number}"
        for what, number in found.items()
        if number != expected[what]
    ]
    names = [utterance.fname for utterance in listed]
    if sorted(set(names)) != names:
        problems.append(f"{name}: expected every file once and in order, found otherwise")
    return problems


def _audio_problems(folder: Path, subset: str, listed: Sequence[Listed]) -> list[str]:
    problems = []
    present = {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.glob(f"{subset}-wav/**/*.wav")
    }
    for utterance in listed:
        size = present.pop(utterance.fname, None)
        if size != wav.file_bytes(utterance.samples):
            found = "no file" if size is None else f"{size}"
            problems.append(f"{utterance.fname}: expected {wav.file_bytes(utterance.samples)} bytes, found {found}")
        elif _header(folder / utterance.fname) != wav.header(utterance.samples, RATE):
            problems.append(f"{utterance.fname}: expected the header of 16-bit mono at {RATE} Hz, found another")
        if round(utterance.duration * RATE) != utterance.samples:
            problems.append(f"{utterance.fname}: expected {utterance.samples} samples, found {utterance.duration} s")
        if not WORDS.fullmatch(utterance.transcript):
            problems.append(f"{utterance.fname}: expected words of a to z and ', found {utterance.transcript!r}")
    return problems + [f"{name}: expected in the list of {subset}, found only on disk" for name in sorted(present)]


def _header(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read(wav.HEADER_BYTES)


def _pickle_problems(pickled: Path, tokens_path: Path) -> list[str]:
    """A pickle can run code when it is read: what it must be is made again and compared instead."""
    if not pickled.exists() or pickled.read_bytes() == tokens.pickled(files.read_json(tokens_path)):
        return []
    return [f"{pickled.name}: expected what is in {tokens_path.name}, found something else"]


def _training_text(expected: Mapping[str, Any], subsets: Mapping[str, Sequence[Listed]]) -> list[str]:
    """The transcripts are those that the sentencepieces were trained on, where none of these were left out."""
    lines = [f"{utterance.transcript}\n" for name in subsets if name.startswith(TRAIN) for utterance in subsets[name]]
    found = hashlib.sha256("".join(lines).encode()).hexdigest()
    if found == expected["transcripts_sha256"] or len(lines) < expected["transcripts"]:
        return []
    return [f"{TRAIN}*: expected transcripts with sha256 {expected['transcripts_sha256']}, found {found}"]


def _shared_ids(subsets: Mapping[str, Sequence[Listed]]) -> list[str]:
    owners: dict[str, str] = {}
    problems = []
    for subset, listed in subsets.items():
        for utterance in listed:
            owner = owners.setdefault(Path(utterance.fname).stem, subset)
            if owner != subset:
                problems.append(f"{utterance.fname}: expected in one subset, found in {owner} too")
    return problems


def _token_problems(folder: Path, vocab_size: int, subsets: Mapping[str, Sequence[Listed]]) -> list[str]:
    """The model has its size, and every list of tokens gives its transcript back."""
    model = tokens.model_path(folder, vocab_size)
    name = model.relative_to(folder)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        return [f"{name}: expected a sentencepiece model, found {error}"]
    problems = []
    if processor.get_piece_size() != vocab_size:
        problems.append(f"{name}: expected {vocab_size} pieces, found {processor.get_piece_size()}")
    for listed in subsets.values():
        for utterance in listed:
            try:
                words = processor.decode(utterance.tokens)
            except (IndexError, TypeError) as error:
                words = f"{error}"
            expected = " ".join(utterance.transcript.split())  # sentencepiece makes one space of two
            if words != expected:
                problems.append(f"{utterance.fname}: expected tokens of {expected!r}, found those of {words!r}")
    return problems
