"""Documents of drawn shards once more, by Python's own gzip, against those that were merged."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from podium.data.again import Again, Sample
from podium.data.c4 import merge, pieces, retoken, shards


def rederive(sample: Sample) -> Again:
    """Compare documents with the source: of merged files every one of drawn shards, all of a subset, and all of the
    validation set; of token files drawn ones, tokenized again.
    """
    if sample.layout == "megatron":
        return _tokens(sample)
    counts, take = sample.content.counts, sample.content.params.get("take", 0)
    found, items, problems = shards.find(sample.source, [int(part) for part in counts["train_documents"]]), 0, []
    for part in counts["train_documents"]:
        whole = [(one.path, start) for one, start in found.places() if one.part == int(part)]
        # where shards were cut, only from the first byte is it known which document is next
        runs = [([path for path, _ in whole], 0)] if take else [([path], at) for path, at in sample.drawn(whole, 1)]
        for paths, start in runs:
            path = merge.train_path(sample.folder, part)
            checked, wrong = _compare(path, start, chain.from_iterable(_lines(one, 0, take) for one in paths), paths)
            items, problems = items + checked, problems + wrong
    count = counts["validation_documents"]
    wanted = islice(chain.from_iterable(_lines(path) for path in found.validation), count)
    checked, wrong = _compare(merge.validation_path(sample.folder, count), 0, wanted, found.validation)
    return Again(items + checked, problems + wrong)


def _tokens(sample: Sample) -> Again:
    counts, take = sample.content.counts, sample.content.params.get("take", 0)
    tokenize = retoken.tokenizer(sample.content.params["tokenizer"], counts["tokenizer_sha256"])
    items, problems = 0, []
    for path, paths, count in _origins(sample.source, counts, take):
        every = chain.from_iterable(_lines(one, 0, take) for one in paths)
        drawn = sample.drawn(range(count))
        problems += retoken.compare(sample.folder / pieces.stem(path), every, drawn, count, tokenize)
        items += len(drawn)
    return Again(items, problems)


def _origins(source: Path, counts: Mapping[str, Any], take: int) -> Iterator[tuple[Path, list[Path], int]]:
    """Each file of text by its name, the files in whose lines its documents are, and how many it has."""
    parts, validation = [int(part) for part in counts["train_documents"]], counts["validation_documents"]
    named = merge.validation_path(source, validation)
    if pieces.is_merged(source):
        trains = {part: [merge.train_path(source, part)] for part in parts}
        whole = sorted(source.glob("c4-validation-*-samples.en.json.gz"))[:1] if take else [named]
    else:
        found = shards.find(source, parts)
        trains = {part: [one.path for one in found.train if one.part == part] for part in parts}
        whole = found.validation
    for part, paths in trains.items():
        yield merge.train_path(source, part), paths, counts["train_documents"][str(part)]
    yield named, whole, validation


def _compare(path: Path, start: int, wanted: Iterable[bytes], origin: Sequence[Path]) -> tuple[int, list[str]]:
    """How many lines were compared from byte `start` of a file on, and the first that differs."""
    there, number = _lines(path, start), 0
    for number, line in enumerate(wanted, 1):
        if next(there, b"") != line:
            expected = f"document {number} of {origin[0].name}" + (" and on" if len(origin) > 1 else "")
            return number, [f"{path.name}: expected {expected}, found another"]
    return number, []


def _lines(path: Path, start: int = 0, most: int = 0) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        yield from islice(gzip.GzipFile(fileobj=file), most or None)
