"""The sample Wikipedia: real articles, WikiExtractor's output, in the form of the published text, with a vocabulary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from podium import files
from podium.data.tasks import runner
from podium.data.wikipedia import publish, source
from podium.data.wikipedia.wordpiece import basic_tokens

EVAL_ARTICLES, BLOCK_MIB = 4, 1.0
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS, STARTS, ENDS = 2000, 400, 400  # pieces: the most frequent words, and what the other words begin and end with


def make(sample_data: Path, to: Path) -> None:
    """Turn `sample_data/wiki/wiki_NN` into parts, `eval.txt`, `eval.md5` and `vocab.txt` in the folder `to`."""
    with runner(workers=1) as run:
        publish.publish(source.raw_files(sample_data / "wiki"), to, publish.Cut(EVAL_ARTICLES, BLOCK_MIB), run)
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(to.glob("part-*")))
    files.write_text(to / "vocab.txt", "".join(f"{piece}\n" for piece in vocabulary(text)))


def vocabulary(text: str) -> list[str]:
    """WordPieces for a text: the special ones, every character, the most frequent words, starts and ends of the others.

    A start or an end counts as often as it occurs, times the pieces that it saves over its characters. Every character
    is there to begin a word and to go on with it, so that no word of the text is unknown.
    """
    words = Counter(basic_tokens(text))
    characters = sorted({char for word in words for char in word})
    frequent = [word for word in _by_count(words) if len(word) > 1][:WORDS]
    starts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for word in words.keys() - set(frequent):
        for length in range(2, min(len(word), 8)):
            starts[word[:length]] += words[word] * (length - 1)
            ends[f"##{word[-length:]}"] += words[word] * (length - 1)
    known = {*frequent, *characters}
    return [
        *SPECIALS,
        *characters,
        *(f"##{char}" for char in characters),
        *frequent,
        *[start for start in _by_count(starts) if start not in known][:STARTS],
        *_by_count(ends)[:ENDS],
    ]


def _by_count(counted: Counter[str]) -> list[str]:
    """The most frequent first; equally frequent ones in the order of the alphabet."""
    return sorted(counted, key=lambda item: (-counted[item], item))
