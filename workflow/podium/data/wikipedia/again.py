"""Drawn text parts made into instances once more, plainly, against the rows of the layout: by a hash of each row.

A line is tokenised character by character, without a cache; every decision is a call of `random.Random`; sentences are
lists of ids that are copied and cut. What is done in which order: mlcommons/training@aa344c7f
retired_benchmarks/bert/cleanup_scripts/{tokenization,create_pretraining_data}.py.
"""

from __future__ import annotations

import hashlib
import json
import random
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from podium.data.again import Again, Sample
from podium.data.wikipedia import store, unicode
from podium.data.wikipedia.layouts import LAYOUTS, PACKED, SHUFFLED
from podium.data.wikipedia.ragged import Instances
from podium.data.wikipedia.wordpiece import read_vocabulary
from podium.errors import BadInput

EVALUATION = "eval.txt"
_FOLDERS = (".", "text", "results4", "results")
_IDEOGRAPHS = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


@dataclass(frozen=True)
class Recipe:
    """The vocabulary and the flags, from the counts of the preparation."""

    ids: Mapping[str, int]
    flags: Mapping[str, Any]
    stand_ins: Mapping[int, int]


def rederive(sample: Sample) -> Again:
    """Make drawn parts, eval.txt among them, again and compare their rows; of an arranged layout those in drawn files.

    Raises BadInput where there is no published text to start from.
    """
    counts = sample.content.counts
    if counts["form"] != "text" or sample.layout not in LAYOUTS:
        raise BadInput(
            "nothing can be made again", "a layout made of the published text", f"form {counts['form']}", "--depth full"
        )
    flags = {**counts["recipe"], "take": sample.content.params.get("take", 0)}
    recipe = Recipe(read_vocabulary(sample.folder / "vocab.txt").ids, flags, unicode.stand_ins(counts["unicode"]))
    names = [part.name for part in store.read_parts(sample.folder)]
    drawn = sample.drawn([*names, *([EVALUATION] if "eval_instances" in counts else [])], least=1)
    problems = []
    for name in drawn:
        rows = [_hash(*row) for row in _instances(_documents(_text(sample.source, name), recipe), recipe)]
        compare = _compare_evaluation if name == EVALUATION else _compare_part
        problems += compare(sample, name, rows)
    return Again(len(drawn), problems)


# --- the layout


def _compare_evaluation(sample: Sample, name: str, rows: list[str]) -> list[str]:
    number = sample.content.counts["eval_instances"]
    picked = {place: rows[int(place * (len(rows) / number))] for place in range(number)}
    return _differences(sample, LAYOUTS[sample.layout].eval_name, picked, name)


def _compare_part(sample: Sample, name: str, rows: list[str]) -> list[str]:
    parts, form = store.read_parts(sample.folder), LAYOUTS[sample.layout]
    names, sizes = [part.name for part in parts], [part.instances for part in parts]
    first = sum(sizes[: names.index(name)])
    if len(rows) != (expected := sizes[names.index(name)]):
        return [f"{name}: expected {len(rows)} instances, found {expected} in {store.PARTS}"]
    problems = []
    for number, origins in _origins(sample, sizes, range(first, first + len(rows))):
        mine = {place: rows[row - first] for place, row in enumerate(origins) if first <= row < first + len(rows)}
        problems += _differences(sample, form.train_name(number, sample.content.counts["shards"]), mine, name)
    return problems


def _origins(sample: Sample, sizes: list[int], mine: range) -> Iterator[tuple[int, Sequence[int]]]:
    """Of each file that has rows of `mine`, or of an arranged layout of drawn files, which row stands at each place."""
    arranged, total, number = LAYOUTS[sample.layout].arranged, sum(sizes), sample.content.counts["shards"]
    if arranged is PACKED:
        for file in sample.drawn(range(number), least=1):
            listed = json.loads((sample.folder / arranged.listed.format(file)).read_text(encoding="utf-8"))
            yield file, [row for rows in listed for row in rows]
        return
    if sample.content.params.get("shards", 0):
        small, larger = divmod(total, number)
        sizes = [small] * (number - larger) + [small + 1] * larger
    files = [(file, *bounds) for file, bounds in enumerate(pairwise(accumulate(sizes, initial=0)))]
    order: Sequence[int] = range(total)
    if arranged is SHUFFLED:
        order = array("I", order)
        random.Random(24).shuffle(order)
        files = sample.drawn(files, least=1)
    else:
        files = [(file, start, stop) for file, start, stop in files if start < mine.stop and mine.start < stop]
    for file, start, stop in files:
        yield file, order[start:stop]


def _differences(sample: Sample, file: str, expected: Mapping[int, str], name: str) -> list[str]:
    """Rows of a file that are not those expected, by their numbers in it."""
    found, count = {}, 0
    for block in LAYOUTS[sample.layout].read(sample.folder / file):
        found |= {count + row: _hash(*_row(block, row)) for row in range(len(block)) if count + row in expected}
        count += len(block)
    wrong = [row for row, digest in expected.items() if found.get(row) != digest]
    return [f"{file}: expected instances of {name}, found {len(wrong)} others, such as row {wrong[0]}"] if wrong else []


def _row(block: Instances, row: int) -> tuple[list[int], int, list[int], list[int], int]:
    ids, places, labels = (
        column.values[column.starts[row] : column.starts[row + 1]].tolist()
        for column in (block.input_ids, block.masked_lm_positions, block.masked_lm_ids)
    )
    return ids, int(block.first_lengths[row]), places, labels, int(block.next_sentence_labels[row])


def _hash(*row: Any) -> str:
    return hashlib.md5(str(row).encode(), usedforsecurity=False).hexdigest()


# --- text to ids


def _text(source: Path, name: str) -> str:
    path = next(path for folder in _FOLDERS if (path := source / folder / name).is_file())
    return path.read_bytes().decode("utf-8").replace("\r", "")


def _documents(text: str, recipe: Recipe) -> list[list[list[int]]]:
    """Documents of sentences of ids; an empty line ends a document."""
    documents: list[list[list[int]]] = [[]]
    taken, inside = 0, False
    for line in text.split("\n"):
        if stripped := line.strip():
            inside = True
            if ids := [piece for word in _words(stripped, recipe) for piece in _pieces(word, recipe.ids)]:
                documents[-1].append(ids)
        else:
            taken, inside = taken + inside, False
            if taken == recipe.flags["take"] > 0:
                break
            documents.append([])
    return [document for document in documents if document]


def _words(text: str, recipe: Recipe) -> list[str]:
    cleaned = ""
    for char in text.translate(recipe.stand_ins):
        category = unicodedata.category(char)
        if char in " \t\n\r" or category == "Zs":
            cleaned += " "
        elif any(first <= ord(char) <= last for first, last in _IDEOGRAPHS):
            cleaned += f" {char} "
        elif category not in ("Cc", "Cf") and char not in "\0\ufffd":
            cleaned += char
    words = ""
    for word in cleaned.split():
        if recipe.flags["do_lower_case"]:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        for char in word:
            mark = 33 <= ord(char) <= 47 or 58 <= ord(char) <= 64 or 91 <= ord(char) <= 96 or 123 <= ord(char) <= 126
            words += f" {char} " if mark or unicodedata.category(char).startswith("P") else char
        words += " "
    return words.split()


def _pieces(word: str, ids: Mapping[str, int]) -> list[int]:
    found, start = [], 0
    while start < len(word) <= 200:
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in ids:
                break
        else:
            return [ids["[UNK]"]]
        found.append(ids[piece])
        start = end
    return found or [ids["[UNK]"]]


# --- ids to instances


def _instances(documents: list[list[list[int]]], recipe: Recipe) -> list[tuple]:
    """(ids, length of the first segment, masked places, what stood there, label) of every instance in order."""
    rng = random.Random(recipe.flags["random_seed"])
    rng.shuffle(documents)
    instances = [
        instance
        for _ in range(recipe.flags["dupe_factor"])
        for number in range(len(documents))
        for instance in _of_document(documents, number, recipe, rng)
    ]
    rng.shuffle(instances)
    return instances


def _of_document(
    documents: list[list[list[int]]], number: int, recipe: Recipe, rng: random.Random
) -> Iterator[tuple[list[int], int, list[int], list[int], int]]:
    longest = recipe.flags["max_seq_length"] - 3
    target = longest
    if rng.random() < recipe.flags["short_seq_prob"]:
        target = rng.randint(2, longest)
    chunk: list[list[int]] = []
    at, document = 0, documents[number]
    while at < len(document):
        chunk.append(document[at])
        if at == len(document) - 1 or sum(map(len, chunk)) >= target:
            end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for sentence in chunk[:end] for token in sentence]
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                second = _elsewhere(documents, number, target - len(first), rng)
                at -= len(chunk) - end
            else:
                second = [token for sentence in chunk[end:] for token in sentence]
            while len(first) + len(second) > longest:
                longer = first if len(first) > len(second) else second
                del longer[0 if rng.random() < 0.5 else -1]
            yield *_masked(first, second, recipe, rng), int(is_random)
            chunk = []
        at += 1


def _elsewhere(documents: list[list[list[int]]], number: int, wanted: int, rng: random.Random) -> list[int]:
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != number:
            break
    tokens: list[int] = []
    for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
        tokens += sentence
        if len(tokens) >= wanted:
            break
    return tokens


def _masked(
    first: list[int], second: list[int], recipe: Recipe, rng: random.Random
) -> tuple[list[int], int, list[int], list[int]]:
    ids, flags = recipe.ids, recipe.flags
    tokens = [ids["[CLS]"], *first, ids["[SEP]"], *second, ids["[SEP]"]]
    places = [place for place in range(len(tokens)) if place not in (0, len(first) + 1, len(tokens) - 1)]
    rng.shuffle(places)
    wanted = min(flags["max_predictions_per_seq"], max(1, round(len(tokens) * flags["masked_lm_prob"])))
    output = list(tokens)
    for place in places[:wanted]:
        if rng.random() < 0.8:
            output[place] = ids["[MASK]"]
        elif rng.random() >= 0.5:
            output[place] = rng.randint(0, len(ids) - 1)
    masked = sorted(places[:wanted])
    return output, len(first) + 2, masked, [tokens[place] for place in masked]
