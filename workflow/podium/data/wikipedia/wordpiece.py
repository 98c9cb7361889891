"""From text to WordPiece ids: the algorithm of the reference's tokenization.py, token for token.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/tokenization.py. The categories, lower case
and decomposition of a character are those of this Python's `unicodedata` (3.11: Unicode 14.0.0), or of an older version
that is asked for. The Rust tokenisers differ from them on thousands of code points, so they cannot be used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from podium.data.wikipedia import unicode
from podium.errors import BadInput

LONGEST_WORD = 200  # characters; a longer word becomes [UNK]
CACHED_CHUNKS = 2_000_000  # bound on memory: about 400 MB a process

# What every line is cut at before the cache: white space as the reference sees it (Zs, tab, line ends; not \v, \f,
# \x1c-\x1f or \x85, which it deletes) and ASCII punctuation, each mark a chunk of its own.
_SPACE = " \t\n\r\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_MARKS = r"!-/:-@\[-`{-~"
_CHUNKS = re.compile(f"[{_MARKS}]|[^{_SPACE}{_MARKS}]+")
_WORDS = re.compile(f"[^{_SPACE}]+")
_SIGMA = "\u03a3"  # the one letter whose lower case depends on its neighbours, across punctuation

# CJK ideographs stand alone; Hangul and kana do not.
_IDEOGRAPHS = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a vocab.txt: their ids are their order, a repeated line takes no id."""

    ids: dict[str, int]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, piece: str) -> int:
        return self.ids[piece]


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocab.txt: one piece a line, white space around it dropped (so CRLF does no harm).

    Raises BadInput when it is missing, is not UTF-8, lacks a special piece or has too many pieces for 16-bit ids.
    """
    advice = "fetch the vocab.txt of the bert input files: podium fetch wikipedia"
    if not path.is_file():
        raise BadInput(f"no vocabulary at {path}", "vocab.txt, 30522 pieces in the published set", "nothing", advice)
    try:
        lines = path.read_bytes().decode("utf-8").replace("\r", "").split("\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8", "one piece a line in UTF-8", str(error), advice) from error
    if lines[-1] == "":
        lines.pop()
    ids: dict[str, int] = {}
    for line in lines:
        ids.setdefault(line.strip(), len(ids))
    if missing := [piece for piece in ("[UNK]", "[CLS]", "[SEP]", "[MASK]") if piece not in ids]:
        raise BadInput(
            f"{path} is not a BERT vocabulary",
            "the pieces [UNK], [CLS], [SEP] and [MASK]",
            f"{len(ids)} pieces without {', '.join(missing)}",
            advice,
        )
    if len(ids) > 1 << 15:
        raise BadInput(f"{path} is too large", "at most 32768 pieces (ids are 16-bit)", f"{len(ids)} pieces", advice)
    return Vocabulary(ids)


class Tokeniser(dict[str, tuple[int, ...]]):
    """Maps a line to ids; being a dict, it remembers the ids of each distinct chunk of text it has met.

    A chunk is what lies between white space and ASCII punctuation: no step of the algorithm looks across these, but for
    the lower case of the Greek capital sigma. Lines with one are cut at white space only.
    """

    def __init__(self, vocabulary: Vocabulary, lower_case: bool = True, unicode_version: str = "") -> None:
        super().__init__()
        self.vocabulary, self.lower_case = vocabulary, lower_case
        self.stand_ins = unicode.stand_ins(unicode_version)
        self.longest_piece = max(map(len, vocabulary.ids))

    def ids(self, line: str) -> list[int]:
        """The ids of one line."""
        chunks = (_WORDS if _SIGMA in line else _CHUNKS).findall(line)
        return list(chain.from_iterable(map(self.__getitem__, chunks)))

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        if len(self) >= CACHED_CHUNKS:
            self.clear()
        seen = chunk.translate(self.stand_ins) if self.stand_ins else chunk
        ids = tuple(chain.from_iterable(map(self._pieces, basic_tokens(seen, self.lower_case))))
        self[chunk] = ids
        return ids

    def _pieces(self, word: str) -> list[int]:
        """Greedy longest match first; a word with an unmatched rest is [UNK] as a whole."""
        known = self.vocabulary.ids
        if len(word) > LONGEST_WORD:
            return [known["[UNK]"]]
        found: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self.longest_piece), start, -1):
                piece = known.get(prefix + word[start:end])
                if piece is not None:
                    break
            else:
                return [known["[UNK]"]]
            found.append(piece)
            start, prefix = end, "##"
        return found


def basic_tokens(text: str, lower_case: bool = True) -> list[str]:
    """Words and single punctuation marks: cleaned, ideographs set apart, lower case without accents if asked."""
    if text.isascii() and text.isprintable():
        cleaned = text
    else:
        cleaned = "".join(map(_clean, text))
        cleaned = _IDEOGRAPHS.sub(r" \g<0> ", cleaned)
    tokens: list[str] = []
    for word in cleaned.split():
        if lower_case:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        tokens += _split_marks(word)
    return " ".join(tokens).split()


def _clean(char: str) -> str:
    """A space for white space, nothing for control and format characters, NUL and U+FFFD, else the character."""
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if category in ("Cc", "Cf") or char == "\ufffd":
        return ""
    return " " if category == "Zs" else char


def _split_marks(word: str) -> Iterator[str]:
    start = 0
    for place, char in enumerate(word):
        if _is_mark(char):
            if start < place:
                yield word[start:place]
            yield char
            start = place + 1
    if start < len(word):
        yield word[start:]


def _is_mark(char: str) -> bool:
    """ASCII that is neither letter, digit nor space, and every Unicode P* category."""
    if char.isascii():
        return not char.isalnum() and "!" <= char <= "~"
    return unicodedata.category(char).startswith("P")
