"""Generated speech for the self-test (common/selftest.py): three steps of four utterances, and two to evaluate."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import sentencepiece

VOCABULARY, RATE = 10, 16_000
# The target is above any error rate of a few words: the test is whether it trains, not what it learns.
SETTINGS = {
    **{"VOCAB_SIZE": VOCABULARY, "TRAIN_SUBSETS": "train-clean-100", "EVAL_SUBSET": "dev-clean"},
    **{"GLOBAL_BATCH_SIZE": 4, "GRADIENT_ACCUMULATION_STEPS": 1, "WARMUP_EPOCHS": 0, "MAX_EPOCHS": 1},
    **{"BASE_LEARNING_RATE": 0.001, "MAX_SYMBOLS": 20, "TARGET": 1000},
}
TEXTS = ("abba", "a bad cab", "bead", "dab a bee")


def write(folder: Path) -> None:
    """Lists, 16 kHz WAV files and the sentencepiece model: the layout `wav`, read by data.py."""
    (folder / "sentencepieces").mkdir()
    (folder / "text").write_text("\n".join(TEXTS * 10))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "sentencepieces" / f"librispeech{VOCABULARY}"),
        vocab_size=VOCABULARY,
        character_coverage=1.0,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "sentencepieces" / f"librispeech{VOCABULARY}.model")
    )
    random = np.random.default_rng(0)
    for subset, count in (("train-clean-100", 12), ("dev-clean", 2)):
        plain, tokenised = [], []
        for number in range(count):
            name, text = f"{subset}-wav/1/1/1-1-{number:04d}.wav", TEXTS[number % len(TEXTS)]
            seconds = _write_wav(folder / name, random.normal(0, 3000, 4000 + 200 * number))
            plain.append({"transcript": text, "files": [{"fname": name}], "original_duration": seconds})
            tokens = pieces.encode(text)
            tokenised.append({"fname": name, "original_duration": seconds, "tokenized_transcript": tokens})
        (folder / f"librispeech-{subset}-wav.json").write_text(json.dumps(plain))
        (folder / f"librispeech-{subset}-wav-tokenized.json").write_text(json.dumps(tokenised))


def _write_wav(path: Path, samples: np.ndarray) -> float:
    """Write 16-bit mono; returns its length in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, len(samples), "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())
    return len(samples) / RATE
