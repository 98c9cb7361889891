"""What must hold of a prepared folder by its own format, whatever its size."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from podium.data.tasks import runner
from podium.data.wikipedia import origins, published, shards, store, text
from podium.data.wikipedia.instances import Recipe
from podium.data.wikipedia.layouts import LAYOUTS, TEXT
from podium.data.wikipedia.ragged import Instances, Ragged
from podium.data.wikipedia.wordpiece import Vocabulary, read_vocabulary
from podium.errors import BadInput

WORTH_A_POOL = 1 << 29  # bytes to read, from which on several processes are quicker


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Every problem of a prepared folder, one sentence each, none hidden by the first."""
    if layout == TEXT:
        return _text_problems(folder, counts)
    form = LAYOUTS[layout]
    try:
        vocabulary = read_vocabulary(folder / "vocab.txt")
    except BadInput as error:
        return [f"vocab.txt: {_sentence(error)}"]
    full = published.of(layout, counts)
    wanted = [form.train_name(number, counts["shards"]) for number in range(counts["shards"])]
    present = [f"train/{path.name}" for path in sorted((folder / "train").glob("*"))]
    problems = [f"{name}: expected no such file, found one" for name in present if name not in wanted]
    problems += _counted("train", counts["train_instances"], full and full.train_instances)
    try:
        parts = store.read_parts(folder)
    except (OSError, KeyError, ValueError) as error:
        return [*problems, f"{store.PARTS}: expected what each text part gave, found {error!r}"]
    problems += _parts_problems(parts, counts)
    hashes: dict[str, str] = dict(zip(wanted, full.shards, strict=False)) if full else {}
    if "eval_instances" in counts:
        wanted.append(form.eval_name)
        hashes |= {form.eval_name: full.evaluation} if full else {}
    recipe = Recipe(**{field.name: counts["recipe"][field.name] for field in fields(Recipe)})
    tasks = [partial(_look, folder / name, name, form.read, vocabulary, recipe, hashes.get(name)) for name in wanted]
    large = sum((folder / name).stat().st_size for name in wanted if (folder / name).exists()) > WORTH_A_POOL
    with runner(len(os.sched_getaffinity(0)) if large else 1) as run:
        found = dict(zip(wanted, run(tasks, "check"), strict=True))
    problems += [problem for file in found.values() for problem in file.problems]
    if "eval_instances" in counts:
        instances = found.pop(form.eval_name).instances
        problems += _counted(form.eval_name, instances, full.eval_instances if full else counts["eval_instances"])
    problems += _train_problems(list(found.values()), parts, counts)
    if form.arranged:
        problems += origins.problems(folder, form, counts, [file.instances for file in found.values()])
    return problems


def _counted(name: str, found: int, expected: int | None) -> list[str]:
    return [f"{name}: expected {expected} instances, found {found}"] if expected not in (None, found) else []


def _parts_problems(parts: Sequence[store.Part], counts: Mapping[str, Any]) -> list[str]:
    """The table of the parts against the counts; every part has an article."""
    names = ("parts", "articles", "train_instances")
    found = (len(parts), sum(part.articles for part in parts), sum(part.instances for part in parts))
    problems = [
        f"{store.PARTS}: expected {counts[name]} {name}, found {number}"
        for name, number in zip(names, found, strict=True)
        if number != counts[name]
    ]
    return problems + [
        f"{store.PARTS}: {part.name}: expected articles, found none" for part in parts if not part.articles
    ]


def _train_problems(found: Sequence[Looked], parts: Sequence[store.Part], counts: Mapping[str, Any]) -> list[str]:
    """The training files together: how many instances each holds, and how often the next sentence is a random one."""
    total, per_file = counts["train_instances"], [file.instances for file in found]
    problems = _counted("train", sum(per_file), total)
    if "samples" not in counts and per_file not in (
        shards.sizes(total, len(found)),
        [part.instances for part in parts],
    ):
        problems.append("train: expected as many instances a file as can be, or those of each part, found otherwise")
    share = sum(file.random_next for file in found) / max(1, sum(per_file))
    least = 0.5 - 2.5 / math.sqrt(
        max(1, sum(per_file))
    )  # five deviations; where an article has one sentence it is more
    if not least <= share < 1:
        problems.append(f"train: expected next_sentence_labels 1 from {least:.3f} of the rows on, found {share:.3f}")
    return problems


def _text_problems(folder: Path, counts: Mapping[str, Any]) -> list[str]:
    """Problems of text parts and of the evaluation text beside them."""
    parts, problems = sorted(folder.glob("part-*")), []
    if len(parts) != counts["parts"]:
        problems.append(f"part-*: expected {counts['parts']} parts, found {len(parts)}")
    evaluation = folder / "eval.txt"
    try:
        text.check_evaluation(evaluation, folder / "eval.md5")
        held_out = frozenset(text.articles(text.read(evaluation)))
    except (OSError, BadInput) as error:
        problems.append(f"eval.txt: {_sentence(error)}")
        held_out = frozenset()
    for part in parts:
        try:
            content = text.read(part)
            text.check_held_out(part, content, held_out)
        except BadInput as error:
            problems.append(f"{part.name}: {_sentence(error)}")
            continue
        padded = sum(line != line.strip() for line in content.split("\n"))
        if padded:
            problems.append(f"{part.name}: expected stripped lines, found {padded} that begin or end with white space")
    return problems


def _sentence(error: OSError | BadInput) -> str:
    if isinstance(error, BadInput):
        return f"expected {error.expected}, found {error.found}"
    return f"expected a file, found {error}"


def row_hashes(block: Instances) -> list[str]:
    """md5 of each row of input_ids without padding. The md5 of the list of all is NVIDIA's hash of a file's content
    (hdf5_md5.py), which does not depend on the kind of file.
    """
    return [_md5(str(row.tolist())) for row in block.input_ids.rows()]


class Looked(NamedTuple):
    """One file: its problems (of each kind the first row is named), its instances, and those with label 1."""

    problems: list[str]
    instances: int
    random_next: int


def _look(
    path: Path,
    name: str,
    read: Callable[[Path], Iterator[Instances]],
    vocabulary: Vocabulary,
    recipe: Recipe,
    content: str | None,
) -> Looked:
    """Read one file; `content` is the published hash of its content."""
    count, random_next, problems, hashes = 0, 0, [], []
    try:
        for block in read(path):
            problems += [f"{name}: {problem}" for problem in block_problems(block, vocabulary, recipe, count)]
            count += len(block)
            random_next += int(block.next_sentence_labels.sum())
            if content:
                hashes += row_hashes(block)
    except (OSError, KeyError, ValueError, IndexError, BadInput) as error:
        return Looked([*problems, f"{name}: expected a file of instances, found {error}"], count, random_next)
    if content and content != (found := _md5(str(hashes))):
        problems.append(f"{name}: expected the published content {content}, found {found}")
    return Looked(problems, count, random_next)


def block_problems(block: Instances, vocabulary: Vocabulary, recipe: Recipe, first: int) -> list[str]:
    """What is wrong with instances, the first of which is number `first` of its file."""
    ids, positions, labels = block.input_ids, block.masked_lm_positions, block.masked_lm_ids
    lengths, masked = ids.lengths, positions.lengths
    if lengths.min(initial=5) < 5:
        return [_problem("at least [CLS] A [SEP] B [SEP]", "too few tokens", lengths < 5, first)]
    starts, stops = ids.starts[:-1], ids.starts[1:]
    cls, sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
    middle = block.first_lengths - 1  # place of the first [SEP]
    segments_fit = (middle >= 2) & (middle < lengths - 2)
    owner = np.repeat(np.arange(len(block)), masked)
    rises = np.diff(positions.values, prepend=-1) > 0
    rises[positions.starts[:-1][masked > 0]] = True
    special = (positions.values <= 0) | (positions.values == middle[owner]) | (positions.values >= lengths[owner] - 1)
    wanted = np.clip(np.rint(lengths * recipe.masked_lm_prob), 1, recipe.max_predictions_per_seq)
    checks = {
        ("ids of the vocabulary", "others"): _rows(ids, (ids.values < 0) | (ids.values >= len(vocabulary))),
        ("[CLS] first", "another token"): ids.values[starts] != cls,
        ("[SEP] last", "another token"): ids.values[stops - 1] != sep,
        ("two segments with text", "segment_ids that are not 0 and then 1"): ~segments_fit,
        ("[SEP] after the first segment", "another token"): segments_fit
        & (ids.values[starts + np.where(segments_fit, middle, 0)] != sep),
        (f"at most {recipe.max_seq_length} tokens", "more"): lengths > recipe.max_seq_length,
        ("as many masked places as the recipe asks for", "another number"): masked != wanted,
        ("as many masked ids as places", "another number"): labels.lengths != masked,
        ("masked places that rise", "some that do not"): _rows(positions, ~rises),
        ("masked places on words", "some on [CLS], [SEP] or padding"): _rows(positions, special),
        ("masked ids of the vocabulary", "others"): _rows(
            labels, (labels.values < 0) | (labels.values >= len(vocabulary))
        ),
        ("next_sentence_labels 0 or 1", "others"): (block.next_sentence_labels | 1) != 1,
    }
    return [_problem(expected, found, wrong, first) for (expected, found), wrong in checks.items() if wrong.any()]


def _rows(ragged: Ragged, wrong: np.ndarray) -> np.ndarray:
    """Which rows hold a wrong value."""
    rows = np.zeros(len(ragged), bool)
    rows[np.repeat(np.arange(len(ragged)), ragged.lengths)[wrong]] = True
    return rows


def _problem(expected: str, found: str, wrong: np.ndarray, first: int) -> str:
    return f"expected {expected}, found {found} in {wrong.sum()} rows, such as row {first + int(np.argmax(wrong))}"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
