"""Sentencepieces: trained on the sorted training transcripts, and every transcript as a list of their ids."""

from __future__ import annotations

import contextlib
import json
import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from podium import files
from podium.data.librispeech.convert import Utterance
from podium.errors import BadInput

VOCAB_SIZE = 1023  # with the blank: 1024 outputs (reference scripts/create_sentencepieces.sh)
WARNING = 1


def model_path(folder: Path, vocab_size: int) -> Path:
    """Where the layout has its sentencepiece model."""
    return folder / "sentencepieces" / f"librispeech{vocab_size}.model"


def train(text: str, vocab_size: int, to: Path) -> None:
    """Write `sentencepieces/librispeech<vocab_size>.{model,vocab}` below `to` from one transcript a line.

    Options of the reference's scripts/create_sentencepieces.sh. All others are left alone, its 16 threads too: the
    model stores them, and the names of both files. Raises BadInput when `vocab_size` does not fit the text.
    """
    model = model_path(to, vocab_size)
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        Path("txt.txt").write_text(text, encoding="utf-8")
        try:
            sentencepiece.SentencePieceTrainer.train(
                input="txt.txt",
                model_prefix=model.stem,
                vocab_size=vocab_size,
                character_coverage=1.0,
                bos_id=-1,
                eos_id=-1,
                model_type="unigram",
                minloglevel=WARNING,
            )
        except RuntimeError as error:
            raise BadInput(
                "the sentencepieces cannot be trained",
                f"a vocab_size that fits {text.count(chr(10))} transcripts",
                f"{vocab_size}: {error}",
                f"set vocab_size; the benchmark's own {VOCAB_SIZE} need the published training subsets",
            ) from error
        trained = {suffix: Path(model.stem + suffix).read_bytes() for suffix in (".model", ".vocab")}
    for suffix, content in trained.items():
        with files.writing(model.with_suffix(suffix)) as file:
            file.write(content)


def tokenize(utterances: Sequence[Utterance], model: Path) -> list[dict[str, Any]]:
    """What NVIDIA's scripts/tokenize_transcripts.py lists of each utterance."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    ids = processor.encode([utterance.transcript for utterance in utterances])
    return [
        {"fname": utterance.fname, "original_duration": utterance.duration, "tokenized_transcript": tokens}
        for utterance, tokens in zip(utterances, ids, strict=True)
    ]


def pickled(entries: Sequence[dict[str, Any]]) -> bytes:
    """The list as NVIDIA's script pickles it."""
    return pickle.dumps(entries, protocol=4)


def write_list(entries: Sequence[dict[str, Any]], path: Path) -> None:
    """Write what `tokenize` returned as JSON without spaces or, for vendors' images, as a pickle (protocol 4)."""
    if path.suffix == ".pkl":
        with files.writing(path) as file:
            file.write(pickled(entries))
    else:
        files.write_text(path, json.dumps(entries, separators=(",", ":")))
