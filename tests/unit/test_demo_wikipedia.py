"""The demo's Wikipedia: the published text's form, 300 and 40 articles, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.data.demo import wikipedia
from podium.data.wikipedia.wordpiece import Tokeniser, read_vocabulary


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    wikipedia.make(folder)
    return folder


@pytest.fixture(scope="module")
def articles(made) -> dict[str, list[list[str]]]:
    """Of each text file its articles, each a list of sentences."""
    texts = {path.name: path.read_text() for path in sorted(made.iterdir()) if path.name != "vocab.txt"}
    assert all(text.endswith(".\n\n") for text in texts.values())
    return {name: [article.split("\n") for article in text[:-2].split("\n\n")] for name, text in texts.items()}


def test_the_same_bytes_every_time(made, tmp_path):
    wikipedia.make(tmp_path)
    names = [f"part-{part:05d}-of-00500" for part in range(4)]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["eval.txt", *names, "vocab.txt"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (made / path.name).read_bytes()


def test_a_sentence_a_line_and_a_blank_line_after_each_article(articles):
    assert [len(found) for found in articles.values()] == [40, 75, 75, 75, 75]
    sentences = [sentence for found in articles.values() for article in found for sentence in article]
    assert len(sentences) == 340 * 6
    assert all(
        sentence == sentence.strip() and sentence[0].isupper() and sentence.endswith(".") for sentence in sentences
    )


def test_each_article_is_about_another_place(articles):
    told = [tuple(article) for found in articles.values() for article in found]
    assert len(set(told)) == 340
    towns = {
        name: {line.split()[0] for article in found for line in article if " is a small town " in line}
        for name, found in articles.items()
    }
    taught = set().union(*(names for name, names in towns.items() if name != "eval.txt"))
    assert len(taught) > 200
    assert len(towns["eval.txt"] - taught) > len(towns["eval.txt"]) / 2


def test_the_vocabulary_covers_every_word_and_has_nothing_else(made, articles):
    pieces = (made / "vocab.txt").read_text().splitlines()
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(set(pieces)) == len(pieces)
    tokeniser = Tokeniser(read_vocabulary(made / "vocab.txt"))
    used = {
        pieces[number]
        for found in articles.values()
        for article in found
        for sentence in article
        for number in tokeniser.ids(sentence)
    }
    assert used == set(pieces[5:])
