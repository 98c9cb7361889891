"""C4's text to tokens against the bare tokenizer, which is the limit, in CPU seconds.

The texts are made of drawn words in a few thousand forms, the tokenizer is trained on them in the manner of Llama 3's.
Megatron-LM's own program needs PyTorch and is not run here; what it took beside ours is in catalog/datasets/c4.md.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
from pathlib import Path

from measure import Bench

from podium.data.c4 import tokenizer, tokens
from podium.data.c4.pieces import Piece
from podium.data.formats import megatron
from podium.files import hash_file

TEXTS, WORDS, VOCABULARY = 4000, 20_000, 30_000


def run(bench: Bench, scratch: Path) -> None:
    if not importlib.util.find_spec("tokenizers"):
        bench.skip("c4-tokens", "make .venv/pins-tokens")
        return
    texts = make()
    path, shard, to = scratch / "tokenizer.json", scratch / "shard.json.gz", scratch / "to"
    train(texts, path)
    shard.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    encode, sha256, dtype = tokenizer.load(path), hash_file(path), megatron.token_dtype(VOCABULARY)

    def bare() -> None:
        for text in texts:
            encode.encode_batch_fast([text], add_special_tokens=False)

    tokenizer.encoder(path, sha256)  # loaded before it is timed, as the bare one is
    costs = bench.costs({"bare": bare, "ours": lambda: tokens.tokenize(Piece(shard), path, sha256, dtype, to)}, to)
    size = sum(len(text.encode()) for text in texts) / 1e6
    how = f"{size:.1f} MB of text; CPU seconds: " + ", ".join(f"{name} {cost.cpu:.2f}" for name, cost in costs.items())
    bench.step("c4-tokens-of-tokenizer", costs["bare"].cpu / costs["ours"].cpu, 0.8, how)


def make() -> list[str]:
    """Texts of some 300 words, common and rare ones."""
    draw = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(draw.choices(letters, k=draw.randint(1, 11))) for _ in range(WORDS)]
    often = [1 / (place + 1) for place in range(WORDS)]
    return [" ".join(draw.choices(words, often, k=draw.randint(50, 600))).capitalize() + "." for _ in range(TEXTS)]


def train(texts: list[str], path: Path) -> None:
    """A tokenizer of bytes, with words cut by the pattern of Llama 3."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    made = Tokenizer(models.BPE(ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(texts, trainer)
    made.save(str(path))
