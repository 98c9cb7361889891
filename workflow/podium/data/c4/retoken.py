"""Drawn documents once more to tokens: one at a time, with all that the library says of them, by files read plainly."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from podium.data.c4.tokenizer import find, load
from podium.errors import BadInput

Tokenize = Callable[[str], Sequence[int]]


def tokenizer(given: str, sha256: str) -> Tokenize:
    """The tokenizer that the tokens were made with; raises BadInput where another lies there now."""
    path = find(given)
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != sha256:
        raise BadInput(
            f"{path} is not what the tokens were made with",
            f"sha256 {sha256}",
            found,
            "podium prepare c4",
        )
    library = load(path)
    return lambda text: library.encode(text, add_special_tokens=False).ids


def compare(
    prefix: Path, lines: Iterable[bytes], drawn: Sequence[int], documents: int, tokenize: Tokenize
) -> list[str]:
    """Where the tokens of the `drawn` documents, by their number from 0, are not those of their line, one sentence
    each, and whether there are fewer lines than documents.
    """
    found, number, wanted = [], 0, set(drawn)
    index_path, data_path = (prefix.with_name(f"{prefix.name}.{end}") for end in ("idx", "bin"))
    with index_path.open("rb") as index, data_path.open("rb") as data:
        for number, line in enumerate(islice(lines, documents), 1):
            if number - 1 not in wanted:
                continue
            there = _document(index, data, number - 1)
            if there != list(tokenize(json.loads(line)["text"])):
                found.append(f"{prefix.name}: expected the tokens of document {number}, found others")
    if number < documents:
        found.append(f"{prefix.name}: expected {documents} documents, found {number} in the source")
    return found


def _document(index: IO[bytes], data: IO[bytes], number: int) -> list[int]:
    """The tokens of a document: of all sequences from the one that it begins with to that of the next document."""
    index.seek(17)
    code, sequences = struct.unpack("<BQ", index.read(9))
    first, after = _numbers(index, 34 + 12 * sequences + 8 * number, "<qq")
    tokens: list[int] = []
    for sequence in range(first, after):
        (length,) = _numbers(index, 34 + 4 * sequence, "<i")
        (start,) = _numbers(index, 34 + 4 * sequences + 8 * sequence, "<q")
        tokens += _numbers(data, start, f"<{length}{'H' if code == 8 else 'i'}")
    return tokens


def _numbers(file: IO[bytes], start: int, form: str) -> tuple[int, ...]:
    file.seek(start)
    return struct.unpack(form, file.read(struct.calcsize(form)))
