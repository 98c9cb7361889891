"""Sentencepieces: trained on the sorted training transcripts, and every transcript as a list of their ids."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import sentencepiece

from podium import files
from podium.data.librispeech.convert import Utterance
from podium.errors import BadInput

WARNING = 1
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")


@dataclass(frozen=True)
class Pieces:
    """Options of the training, with the values of the reference's scripts/create_sentencepieces.sh."""

    vocab_size: int = 1023  # with the blank: 1024 outputs
    character_coverage: float = 1.0
    bos_id: int = -1
    eos_id: int = -1
    model_type: str = "unigram"


def model_path(folder: Path, vocab_size: int) -> Path:
    """Where the layout has its sentencepiece model."""
    return folder / "sentencepieces" / f"librispeech{vocab_size}.model"


def train(text: str, pieces: Pieces, to: Path, exactly: bool = True) -> int:
    """Write `sentencepieces/librispeech<vocab_size>.{model,vocab}` below `to` from one transcript a line.

    All other options are left alone, the 16 threads too: the model stores them, and the names of both files. Where the
    text has not so many pieces, and not `exactly` as many are asked for, it is all that it has. Returns how many.
    Raises BadInput when `vocab_size` does not fit the text.
    """
    try:
        trained = _trained(text, pieces)
    except RuntimeError as error:
        most = _TOO_MANY.search(str(error))
        if most and not exactly:
            return train(text, replace(pieces, vocab_size=int(most[1])), to)
        raise BadInput(
            "the sentencepieces cannot be trained",
            f"options that fit {text.count(chr(10))} transcripts",
            f"{asdict(pieces)}: {error}",
            f"set vocab_size; the benchmark's own {Pieces.vocab_size} need the published training subsets",
        ) from error
    for suffix, content in trained.items():
        with files.writing(model_path(to, pieces.vocab_size).with_suffix(suffix)) as file:
            file.write(content)
    return pieces.vocab_size


def _trained(text: str, pieces: Pieces) -> dict[str, bytes]:
    """The model and its vocabulary by their suffixes; raises RuntimeError when the options do not fit the text."""
    prefix = model_path(Path(), pieces.vocab_size).stem
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        Path("txt.txt").write_text(text, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input="txt.txt", model_prefix=prefix, minloglevel=WARNING, **asdict(pieces)
        )
        return {suffix: Path(prefix + suffix).read_bytes() for suffix in (".model", ".vocab")}


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
