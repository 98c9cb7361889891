"""The articles held out for evaluation.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/seperate_test_set.py.
"""

from __future__ import annotations

import hashlib
import random
from typing import NamedTuple

from podium.errors import BadInput

SEED = 12345
ARTICLES = 10000


class Split(NamedTuple):
    """The text to train on and the articles held out, of one file."""

    train: str
    evaluation: list[str]


def split(text: str, number: int, files: int, wanted: int) -> Split:
    """Hold out this file's share of the `wanted` articles; it is file `number` of `files`, in the order of their paths.

    As in the reference, what two line ends enclose is an article, so that there may be an empty one. Raises BadInput
    when the file has fewer articles than its share (the reference would draw for ever).
    """
    articles = text.split("\n\n")
    share = int((number + 1) * wanted * 1.0 / files) - int(number * wanted * 1.0 / files)
    if share > len(articles):
        raise BadInput(
            f"file {number + 1} of {files} is too small",
            f"{share} articles to hold out for evaluation",
            f"{len(articles)} articles",
            "lower the parameter eval_articles",
        )
    draw = random.Random(SEED + number * 13)
    held: list[int] = []
    while len(held) < share:
        article = int(draw.random() * len(articles))
        if article not in held:
            held.append(article)
    train = [article for place, article in enumerate(articles) if place not in held]
    return Split("".join([f"{article}\n\n" for article in train]), [articles[place] for place in sorted(held)])


def article_md5(article: str) -> str:
    """The line of an article in eval.md5."""
    return hashlib.md5(article.rstrip().encode(), usedforsecurity=False).hexdigest()
