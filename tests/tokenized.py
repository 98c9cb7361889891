"""Texts, tokenizers that are trained here, and Megatron's token files a number at a time."""

from __future__ import annotations

import gzip
import json
import random
import struct

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

WORDS = ["the", "quick", "brown", "fox", "it's", "2024", " ", "\n\n", "Wörld", "日本", "🙂", "<s>", "</s>", "é"]


def texts(number: int) -> list[str]:
    """A few texts, other ones for each number; now and then an empty one."""
    draw = random.Random(number)
    return [" ".join(draw.choices(WORDS, k=draw.choice([0, 3, 9, 40]))) for _ in range(3 + number % 3)]


def pack(those: list[str]) -> bytes:
    return gzip.compress(b"".join(json.dumps({"text": text, "url": "x"}).encode() + b"\n" for text in those))


def byte_level() -> Tokenizer:
    """As Llama 3's: bytes, words cut by a pattern, and a first token that is added unless one says no."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    byte_wise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_wise])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(WORDS * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<s>", "</s>")])
    return _beginning(tokenizer)


def sentence_pieces() -> Tokenizer:
    """As Mixtral's: pieces with ▁ for spaces, bytes for what is not known."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(WORDS[:5] * 3, trainer)
    return _beginning(tokenizer)


def _beginning(tokenizer: Tokenizer) -> Tokenizer:
    number = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", number)])
    tokenizer.enable_truncation(5)
    return tokenizer


def large() -> Tokenizer:
    """With more tokens than two bytes can number."""
    facts = json.loads(byte_level().to_str())
    facts["added_tokens"] = []
    facts["post_processor"] = None
    vocabulary = facts["model"]["vocab"]
    vocabulary |= {f"unused {number}": number for number in range(len(vocabulary), 66_000)}
    return Tokenizer.from_str(json.dumps(facts))


TOKENIZERS = {"byte_level": byte_level, "sentence_pieces": sentence_pieces, "large": large}


def written(documents: list[list[int]], form: str) -> tuple[bytes, bytes]:
    """A .bin and its .idx, a number at a time; `form` is how a token is written."""
    data, lengths, places, starts = b"", b"", b"", struct.pack("<q", 0)
    sequences = 0
    for document in documents:
        if document:
            lengths += struct.pack("<i", len(document))
            places += struct.pack("<q", len(data))
            data += struct.pack(f"<{len(document)}{form}", *document)
            sequences += 1
        starts += struct.pack("<q", sequences)
    kind = {"H": 8, "i": 4}[form]
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, kind, sequences, len(documents) + 1)
    return data, head + lengths + places + starts
