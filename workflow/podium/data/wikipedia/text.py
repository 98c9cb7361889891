"""The published text: one sentence a line, an empty line between articles; read, checked and tokenised."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path

import numpy as np

from podium.data.wikipedia.instances import Corpus
from podium.data.wikipedia.split import article_md5
from podium.data.wikipedia.wordpiece import Tokeniser
from podium.errors import BadInput

_BETWEEN = re.compile(r"\n\s*\n")  # articles
OF_ITS_OWN = 2000  # characters; shorter articles (stubs that programs wrote) may occur twice in a dump


def read(path: Path) -> str:
    """The content of a text part. Each \\r is dropped, as TensorFlow's readline does.

    Raises BadInput for an empty file, bytes that are not UTF-8, a web page, and text that was not cleaned.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _bad(path, "text in UTF-8", f"the byte 0x{content[error.start]:02x} in line {line}") from error
    start = text[:1000].lstrip("\ufeff \t\r\n").lower()
    if not start:
        raise _bad(path, "articles, one sentence a line", f"{len(content)} bytes without any text")
    if start.startswith(("<!doctype", "<html", "<?xml")):
        raise _bad(path, "articles, one sentence a line", "a web page (an error page of the server?)")
    if start.startswith("<doc id=") or "\n<doc id=" in text:
        line = text.count("\n", 0, text.find("<doc id=")) + 1
        raise _bad(path, "cleaned text", f"a <doc> tag in line {line}: this is the output of WikiExtractor")
    return text.replace("\r", "")


def articles(text: str) -> list[str]:
    """md5 of each article, as in eval.md5."""
    pieces = text.split("\n\n")
    if not pieces[-1].strip():
        pieces.pop()
    return [article_md5(piece) for piece in pieces]


def check_evaluation(path: Path, listed: Path) -> None:
    """Raise BadInput when eval.txt does not hold the articles of eval.md5: it was made from another dump."""
    wanted, found = listed.read_text(encoding="utf-8").split(), set(articles(read(path)))
    missing = sum(md5 not in found for md5 in wanted)
    # A few may not be found as they were: an article of nothing but line ends cannot be told from its neighbours.
    if missing > max(1, len(wanted) // 100):
        raise _bad(path, f"the {len(wanted)} articles of {listed.name}", f"{missing} are missing: another dump date?")


def check_held_out(path: Path, text: str, held_out: Collection[str]) -> None:
    """Raise BadInput when a text part holds an article of the evaluation; a short one may be there twice."""
    for piece in text.split("\n\n") if held_out else ():
        if len(piece) >= OF_ITS_OWN and article_md5(piece) in held_out:
            raise _bad(path, "no article that is held out", f"{piece.strip()[:60]!r}, which is in eval.txt")


def first(text: str, number: int) -> str:
    """The first `number` articles of a text; 0 is all."""
    ends = [match.end() for match in islice(_BETWEEN.finditer(text.lstrip()), number)]
    return text.lstrip()[: ends[-1]] if number and len(ends) == number else text


def tokenise(path: Path, text: str, tokeniser: Tokeniser) -> Corpus:
    """An empty line ends a document; sentences and documents without a token are left out.

    Raises BadInput when nothing is left.
    """
    corpus = corpus_of((line.strip() for line in text.split("\n")), tokeniser)
    if not corpus.documents:
        raise _bad(path, "articles, one sentence a line", "no article with a word in it")
    return corpus


def corpus_of(lines: Iterable[str], tokeniser: Tokeniser) -> Corpus:
    """Tokenise stripped lines."""
    tokens = array("h")
    documents: list[list[int]] = [[0]]
    for line in lines:
        if not line:
            documents.append([len(tokens)])
        elif ids := tokeniser.ids(line):
            tokens.extend(ids)
            documents[-1].append(len(tokens))
    return Corpus(np.array(tokens, np.int16), [bounds for bounds in documents if len(bounds) > 1])


def _bad(path: Path, expected: str, found: str) -> BadInput:
    return BadInput(f"{path} is not a text part", expected, found, "fetch it again: podium fetch wikipedia")
