"""From documents to training instances: sentence pairs with masked words, decided as the reference decides.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/create_pretraining_data.py. Every random
decision is taken from the same Mersenne Twister stream in the same order. What is different is that no text is copied
while deciding: A and B are spans of the part's token stream, cutting them moves a bound, and the rows are put together
afterwards, many at once.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from podium.data.wikipedia.ragged import BLOCK, Instances, Ragged, joined, ranges
from podium.data.wikipedia.wordpiece import Vocabulary

KEPT = -1  # stands for the replacement of a chosen word that stays as it is


@dataclass(frozen=True)
class Recipe:
    """The flags of create_pretraining_data.py, with the values of the benchmark."""

    max_seq_length: int = 512
    max_predictions_per_seq: int = 76
    masked_lm_prob: float = 0.15
    random_seed: int = 12345
    dupe_factor: int = 10
    short_seq_prob: float = 0.1


@dataclass(frozen=True)
class Corpus:
    """The tokens of a part as one stream, and the bounds of the sentences of each document in it."""

    tokens: np.ndarray  # (tokens,) int16
    documents: list[list[int]]  # sentence s of a document is tokens[bounds[s]:bounds[s + 1]]; none is empty


def build(corpus: Corpus, vocabulary: Vocabulary, recipe: Recipe) -> Instances:
    """All instances of one part in the reference's order."""
    rng = random.Random(recipe.random_seed)
    documents = list(corpus.documents)
    rng.shuffle(documents)

    spans = array("q")  # start and stop of A and of B, and whether B is a random text
    masks, replacements, masked = array("h"), array("h"), array("h")
    for _ in range(recipe.dupe_factor):
        for number in range(len(documents)):
            for pair in _pairs(documents, number, recipe, rng):
                a_start, a_stop, b_start, b_stop, _ = pair
                places = _choose(a_stop - a_start, b_stop - b_start, recipe, rng)
                spans.extend(pair)
                masks.extend(places)
                masked.append(len(places))
                replacements.extend(_replace(len(places), len(vocabulary), vocabulary["[MASK]"], rng))
    order = list(range(len(masked)))
    rng.shuffle(order)
    draft = _Draft(
        tokens=np.append(corpus.tokens, np.array([vocabulary["[CLS]"], vocabulary["[SEP]"]], np.int16)),
        spans=np.array(spans, np.int64).reshape(-1, 5),
        places=Ragged.of(np.array(masks, np.int16), np.array(masked)),
        replacements=Ragged.of(np.array(replacements, np.int16), np.array(masked)),
    )
    return joined([draft.rows(np.array(order[start : start + BLOCK])) for start in range(0, len(order), BLOCK)])


def _pairs(
    documents: list[list[int]], number: int, recipe: Recipe, rng: random.Random
) -> Iterator[tuple[int, int, int, int, bool]]:
    """The pairs of one document: start and stop of A, start and stop of B, and whether B is from elsewhere."""
    bounds = documents[number]
    sentences = len(bounds) - 1
    longest = recipe.max_seq_length - 3
    target = longest
    if rng.random() < recipe.short_seq_prob:
        target = rng.randint(2, longest)
    first = 0
    while first < sentences:
        # The chunk: sentences up to the one that fills the target length, or to the end of the document.
        after = min(bisect_left(bounds, bounds[first] + target, first + 1), sentences)
        middle = first + 1 if after - first == 1 else first + rng.randint(1, after - first - 1)
        a_start, a_stop = bounds[first], bounds[middle]
        is_random = after - first == 1 or rng.random() < 0.5
        if is_random:
            b_start, b_stop = _elsewhere(documents, number, target - (a_stop - a_start), rng)
            first = middle  # the rest of the chunk is used again
        else:
            b_start, b_stop = a_stop, bounds[after]
            first = after
        while (a_length := a_stop - a_start) + (b_length := b_stop - b_start) > longest:
            front = rng.random() < 0.5
            if a_length > b_length:
                a_start, a_stop = (a_start + 1, a_stop) if front else (a_start, a_stop - 1)
            else:
                b_start, b_stop = (b_start + 1, b_stop) if front else (b_start, b_stop - 1)
        yield a_start, a_stop, b_start, b_stop, is_random


def _elsewhere(documents: list[list[int]], number: int, length: int, rng: random.Random) -> tuple[int, int]:
    """Sentences of another document (of the same one after ten draws), at least one and `length` tokens if it can."""
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != number:
            break
    bounds = documents[other]
    first = rng.randint(0, len(bounds) - 2)
    after = min(bisect_left(bounds, bounds[first] + length, first + 1), len(bounds) - 1)
    return bounds[first], bounds[after]


def _choose(a_length: int, b_length: int, recipe: Recipe, rng: random.Random) -> list[int]:
    """Which places of the row to predict, in the order of the draw."""
    length = a_length + b_length + 3
    wanted = min(recipe.max_predictions_per_seq, max(1, round(length * recipe.masked_lm_prob)))
    return shuffled([*range(1, a_length + 1), *range(a_length + 2, length - 1)], wanted, rng)


def shuffled(items: list[int], wanted: int, rng: random.Random) -> list[int]:
    """The first `wanted` items after `rng.shuffle(items)`, from the same draws; `items` is used up.

    Most of the time goes here. It is the loop of `shuffle`, from the last place down: draw as many bits as the number
    of the place has, until they are not above it. What ends up at a place that is not wanted is not put there.
    """
    draw = rng.getrandbits
    last = len(items) - 1
    while last > 0:
        bits = (last + 1).bit_length()
        fewer = (1 << bits - 1) - 2  # the next place that needs fewer bits
        kept = max(min(wanted - 1, last), fewer)
        for place in range(last, kept, -1):
            other = draw(bits)
            while other > place:
                other = draw(bits)
            items[other] = items[place]
        for place in range(kept, fewer, -1):
            other = draw(bits)
            while other > place:
                other = draw(bits)
            items[place], items[other] = items[other], items[place]
        last = fewer
    return items[:wanted]


def _replace(count: int, vocabulary_size: int, mask: int, rng: random.Random) -> list[int]:
    """What to put there: [MASK] for 80 %, for 10 % the word itself, for 10 % any piece of the vocabulary."""
    draw = rng.random
    return [mask if draw() < 0.8 else KEPT if draw() < 0.5 else rng.randrange(vocabulary_size) for _ in range(count)]


@dataclass(frozen=True)
class _Draft:
    """The decisions: what each instance is made of, not yet put together."""

    tokens: np.ndarray  # the part's tokens, then [CLS], [SEP]
    spans: np.ndarray  # (N, 5) a_start, a_stop, b_start, b_stop, is_random
    places: Ragged
    replacements: Ragged

    def rows(self, numbers: np.ndarray) -> Instances:
        """Put the instances with these numbers together."""
        a_start, a_stop, b_start, b_stop, is_random = self.spans[numbers].T
        a_length, b_length = a_stop - a_start, b_stop - b_start
        one = np.ones_like(a_start)
        cls, sep = (len(self.tokens) - 2) * one, (len(self.tokens) - 1) * one
        source = ranges(
            np.stack([cls, a_start, sep, b_start, sep], 1).ravel(),
            np.stack([one, a_length, one, b_length, one], 1).ravel(),
        )
        input_ids = Ragged.of(self.tokens[source], a_length + b_length + 3)
        places, replacements = self.places.take(numbers), self.replacements.take(numbers).values
        # Sort each row's places: the row number in front keeps the rows apart.
        row = np.repeat(np.arange(len(numbers)), places.lengths)
        order = np.argsort((row << 16) + places.values, kind="stable")
        positions, replacements = places.values[order], replacements[order]
        target = np.repeat(input_ids.starts[:-1], places.lengths) + positions
        labels = input_ids.values[target]
        input_ids.values[target] = np.where(replacements == KEPT, labels, replacements)
        return Instances(
            input_ids=input_ids,
            first_lengths=(a_length + 2).astype(np.int16),
            masked_lm_positions=Ragged(positions, places.starts),
            masked_lm_ids=Ragged(labels, places.starts),
            next_sentence_labels=is_random.astype(np.int8),
        )
