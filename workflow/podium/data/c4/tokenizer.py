"""The tokenizer of a benchmark: a `tokenizer.json`, read by the library that the reference's program reads it with.

Source: mlcommons/training aa344c7f, small_llm_pretraining/nemo/README.md and utils/preprocess.sh (NeMo's
preprocess_data_for_megatron.py with `--tokenizer-library huggingface`, and without `--append-eod`). There no special
token is added before or behind a text, but those that are in the text become what they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium import files
from podium.errors import BadEnvironment, BadInput

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "tokenizer.json"
KNOWN = {128_256: "llama31", 32_000: "mixtral", 32_768: "mixtral"}  # by entries; both are about for Mixtral 8x22B
MAKE = "make .venv/pins-tokens"
NEXT = "podium fetch c4_llama31 or c4_mixtral, and set the parameter tokenizer to raw/tokenizer below it"


def find(given: Any) -> Path:
    """The file of a tokenizer that is named by itself or by its folder; raises BadInput where there is none."""
    if not isinstance(given, str) or not given:
        raise BadInput("no tokenizer for C4", "parameter tokenizer: a tokenizer.json or its folder", repr(given), NEXT)
    path = Path(given) / NAME if Path(given).is_dir() else Path(given)
    if not path.is_file():
        found = ", ".join(sorted(one.name for one in path.parent.glob("*"))[:6]) if path.parent.is_dir() else "nothing"
        raise BadInput(f"no tokenizer at {given}", f"a file {NAME}", found or "an empty folder", NEXT)
    return path


def needed() -> None:
    """Raise BadEnvironment that names the command where the library is not there."""
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise BadEnvironment(
            "tokens need a library of their own", "tokenizers, pinned in requirements-tokens.txt", str(error), MAKE
        ) from error


def load(path: Path) -> Tokenizer:
    """The tokenizer, which cuts and pads nothing; raises BadInput for a file that is none or that numbers with gaps."""
    needed()
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no other
        raise BadInput(f"{path} cannot be read", "a tokenizer of Hugging Face", str(error)[:200], NEXT) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    numbers = tokenizer.get_vocab(with_added_tokens=True).values()
    if not numbers or max(numbers) + 1 != tokenizer.get_vocab_size(with_added_tokens=True):
        found = f"{len(numbers)} up to {max(numbers, default=0)}"
        raise BadInput(f"{path} has gaps", "tokens numbered from 0 on", found, NEXT)
    return tokenizer


def vocabulary(path: Path, expected: Any = None) -> int:
    """How many tokens there are; raises BadInput unless it is so many, or one of those that MLPerf uses."""
    found = load(path).get_vocab_size(with_added_tokens=True)
    if expected is not None and (type(expected) is not int or expected < 1):
        raise BadInput("parameter vocabulary", "a number from 1", repr(expected), "podium prepare --help")
    if found not in ([expected] if expected else KNOWN):
        those = str(expected) if expected else ", ".join(f"{size} ({name})" for size, name in KNOWN.items())
        raise BadInput(
            f"{path} is another tokenizer",
            f"a vocabulary of {those}",
            str(found),
            f"give the tokenizer of the benchmark, or say `vocabulary: {found}` if it is meant",
        )
    return found


@lru_cache(maxsize=1)
def encoder(path: Path, sha256: str) -> Encoder:
    """The tokenizer of this content, once in a process; raises BadInput where it has changed since it was looked at."""
    if files.hash_file(path) != sha256:
        raise BadInput(f"{path} has changed", f"sha256 {sha256}", "another", "podium prepare c4")
    return Encoder(path)


class Encoder:
    """Texts to tokens, several at a time on one core: workers are processes."""

    def __init__(self, path: Path) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = load(path)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, none added."""
        return [one.ids for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
