"""What must hold of the merged files and of the token files, whatever their number of documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium.data.c4 import merge, pieces, shards
from podium.data.formats import megatron
from podium.errors import BadInput


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything that contradicts the format or the counts, one sentence each: of text every checksum of gzip, that
    each line is a document with a text, and how many there are; of tokens every entry of the index, and every token.
    """
    expected = {merge.train_path(folder, part): count for part, count in counts["train_documents"].items()}
    expected[merge.validation_path(folder, counts["validation_documents"])] = counts["validation_documents"]
    if layout == "megatron":
        size = counts["vocabulary"]
        found = [megatron.problems(folder / pieces.stem(path), size, count) for path, count in expected.items()]
        return [problem for those in found for problem in those]
    return [problem for path, count in expected.items() for problem in _of_file(path, count)]


def _of_file(path: Path, expected: int) -> list[str]:
    if not path.is_file():
        return [f"{path.name}: expected {expected} documents, found no file"]
    try:
        found = sum(1 for _ in shards.documents(path))
    except BadInput as error:
        return [f"{path.name}: expected {error.expected}, found {error.found}"]
    return [] if found == expected else [f"{path.name}: expected {expected} documents, found {found}"]
