"""Sentence segmentation by a regular expression: one sentence a line.

This is not the official segmentation: the reference used the punkt model of nltk 3.4.5, which has been withdrawn. Text
made here is not the published text, and its counts say so.
"""

from __future__ import annotations

import re

# After a full stop, with or without a closing mark (which is dropped), where the next word begins like a sentence.
_END = re.compile(r"""(?<=[.!?])["”)]?\s+(?=["“(]?[A-ZА-Я0-9])""")


def one_a_line(content: bytes) -> str:
    """Cleaned text, a paragraph a line and an empty line before each article, to a sentence a line.

    Raises UnicodeDecodeError when the text is not UTF-8.
    """
    lines = content.decode("utf-8").removesuffix("\n").split("\n")
    return "".join([f"{sentence.strip()}\n" for line in lines for sentence in _END.split(line)]) + "\n"
