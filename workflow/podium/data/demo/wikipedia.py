"""The demo's Wikipedia: generated articles in the form of the published text, small enough to learn in seconds.

Every article describes one invented place in the same six sentences, in random order. Their words can be told from one
another, so a small model learns them; the invented names differ from article to article, so it cannot reach 1.0.
Sentences are whole lines, as in the published text: the next-sentence task depends on that.
"""

from __future__ import annotations

import random
from pathlib import Path

from podium import files

TRAIN_ARTICLES, EVAL_ARTICLES, PARTS = 300, 40, 4
SEED = 20200101

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SYLLABLES = tuple(consonant + vowel for consonant in "bdfklmnrst" for vowel in "aou")
SIDES = ("north", "south", "east", "west")
GOODS = ("wool", "salt", "glass", "paper", "honey", "copper")

# No two templates share many words, so that a masked word can be told from the others of its sentence.
TEMPLATES = (
    "{place} is a small town near the {side} coast of {region}.",
    "The river {river} flows past it and through three old mills.",
    "Most people there make {good} and sell their work at fairs.",
    "One road leads over high hills to {other} and its harbour.",
    "Many houses were built from grey stone after a great fire.",
    "Each spring a market opens on every second day.",
)


def make(to: Path) -> None:
    """Write the parts, `eval.txt` and `vocab.txt` into the folder `to`; the bytes are the same every time.

    `part-%05d-of-00500` and `eval.txt`: one sentence a line, a blank line after each article
    (the published text's form; the 500 in the name is a constant there, not a count).
    `vocab.txt`: one WordPiece a line, the special ones first.
    """
    draw = random.Random(SEED)
    articles = [_article(draw) for _ in range(TRAIN_ARTICLES + EVAL_ARTICLES)]
    train, evaluation = articles[:TRAIN_ARTICLES], articles[TRAIN_ARTICLES:]
    for part in range(PARTS):
        files.write_text(to / f"part-{part:05d}-of-00500", _text(train[part::PARTS]))
    files.write_text(to / "eval.txt", _text(evaluation))
    files.write_text(to / "vocab.txt", "".join(f"{piece}\n" for piece in _vocabulary()))


def _article(draw: random.Random) -> list[str]:
    """Every template once, in random order, about one place."""
    names = {key: _name(draw) for key in ("place", "region", "river", "other")}
    sentences = [template.format(**names, side=draw.choice(SIDES), good=draw.choice(GOODS)) for template in TEMPLATES]
    draw.shuffle(sentences)
    return sentences


def _name(draw: random.Random) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(2)).capitalize()


def _text(articles: list[list[str]]) -> str:
    return "".join("\n".join(article) + "\n\n" for article in articles)


def _vocabulary() -> list[str]:
    """Every word of the templates whole, and the syllables of the names as first and as later pieces."""
    blank = {key: "" for key in ("place", "region", "river", "other", "side", "good")}
    words = {word.strip(".").lower() for template in TEMPLATES for word in template.format(**blank).split()}
    words |= {*SIDES, *GOODS}
    words.discard("")
    later = [f"##{syllable}" for syllable in SYLLABLES]
    return list(dict.fromkeys([*SPECIALS, ".", *sorted(words), *SYLLABLES, *later]))  # "to" is a word and a syllable
