"""LibriSpeech for RNN-T: from FLAC archives to WAV, lists and sentencepieces as the reference makes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import sentencepiece

from podium.data.job import Job
from podium.data.librispeech import convert, source, tokens
from podium.data.librispeech.again import rederive
from podium.data.librispeech.check import invariants
from podium.data.librispeech.convert import Utterance
from podium.data.librispeech.tokens import Pieces
from podium.errors import BadInput

FORMS = {
    "archives": "<subset>.tar.gz, as OpenSLR 12 has them; read as a stream, never unpacked on disk",
    "extracted": "LibriSpeech/<subset>/<speaker>/<chapter>/, as the archives unpack",
}
LAYOUTS = {
    "wav": "16 kHz WAV, lists as pysox writes them, sentencepieces, tokenised lists: the reference's and NVIDIA's"
}
PARAMS = {
    "vocab_size": f"sentencepieces to train (default {Pieces.vocab_size}, the benchmark's, or all that the text has)",
    "character_coverage": "share of the text's characters that have a piece (default 1.0)",
    "model_type": "unigram (default), bpe, char or word",
    "bos_id": "id of the piece that begins a sentence (default -1: none)",
    "eos_id": "id of the piece that ends one (default -1: none)",
    "take": "only the first N utterances of each subset: a subset for tests (default: all); sentencepieces are of all",
    "pickle": "true: tokenised lists also as .pkl, for vendors' images that read nothing else; default false",
}
__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]


def prepare(job: Job) -> dict[str, Any]:
    """Make the layout `wav` below `job.to`; the counts per subset and what the sentencepieces were trained with.

    What an interrupted try left there is kept as far as it is whole. Raises BadInput for a wrong source or parameter.
    """
    pieces, as_pickle = _parameters(job.params)
    subsets = source.subsets(job.source)
    if not any(subset.is_train for subset in subsets):
        raise BadInput(
            f"no training subset in {job.source}",
            "train-*, whose transcripts train the sentencepieces",
            ", ".join(subset.name for subset in subsets),
            source.NEXT,
        )
    utterances: dict[str, list[Utterance]] = {}
    training: list[str] = []
    for subset in subsets:
        found, transcripts = convert.convert(subset, job.to, job.workers, job.params.get("take", 0))
        utterances[subset.name] = found
        training += transcripts if subset.is_train else []
        os.sync()  # once for all its files: one sync for each of 292,367 would take longer than to decode them
        convert.write_list(utterances[subset.name], job.to / f"librispeech-{subset.name}-wav.json")

    text = "".join(f"{transcript}\n" for transcript in training)
    vocab_size = tokens.train(text, pieces, job.to, exactly="vocab_size" in job.params)
    counts = {}
    for name, of_subset in utterances.items():
        entries = tokens.tokenize(of_subset, tokens.model_path(job.to, vocab_size))
        for suffix in (".json", ".pkl") if as_pickle else (".json",):
            tokens.write_list(entries, job.to / f"librispeech-{name}-wav-tokenized{suffix}")
        counts[name] = _counts(of_subset, entries)
    return {
        "subsets": counts,
        "utterances": sum(count["utterances"] for count in counts.values()),
        "hours": convert.hours(sum(count["samples"] for count in counts.values())),
        f"train_{convert.UP_TO_MAX}": sum(counts[s.name][convert.UP_TO_MAX] for s in subsets if s.is_train),
        "sentencepiece": {
            "version": sentencepiece.__version__,
            **asdict(pieces),
            "vocab_size": vocab_size,
            "transcripts": len(training),
            "transcripts_sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
    }


def _parameters(params: Mapping[str, Any]) -> tuple[Pieces, bool]:
    given = {field.name: params.get(field.name, field.default) for field in fields(Pieces)}
    as_pickle = params.get("pickle", False)
    numbers = [given[name] for name in ("vocab_size", "bos_id", "eos_id")]
    good = {
        "whole numbers": all(type(number) is int for number in numbers),
        "a coverage from 0.9 to 1": type(given["character_coverage"]) in (int, float)
        and 0.9 <= given["character_coverage"] <= 1,
        "a known model_type": given["model_type"] in ("unigram", "bpe", "char", "word"),
        "pickle true or false": type(as_pickle) is bool,
    }
    if not all(good.values()):
        expected = ", ".join(what for what, fits in good.items() if not fits)
        found = f"{given | {'pickle': as_pickle}}"
        raise BadInput("a parameter of librispeech is wrong", expected, found, "podium prepare --help")
    return Pieces(**given), as_pickle


def _counts(utterances: Sequence[Utterance], entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    samples = sum(utterance.samples for utterance in utterances)
    return {
        "utterances": len(utterances),
        "samples": samples,
        "hours": convert.hours(samples),
        convert.UP_TO_MAX: sum(utterance.duration <= convert.MAX_DURATION for utterance in utterances),
        "tokens": sum(len(entry["tokenized_transcript"]) for entry in entries),
    }
