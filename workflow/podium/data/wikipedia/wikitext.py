"""Wikitext to plain text, paragraph by paragraph: our own extractor, for text that is not the official one.

Kept is what reads on as prose. Headings, lists, tables, figures, footnotes, formulas and templates are dropped.
Templates are not expanded, for what they give depends on other pages and, with some, on the day. What the markup means:
mediawiki.org, Help:Formatting, Help:Links, Help:Tables, Preprocessor ABNF.
"""

from __future__ import annotations

import html
import re

VERSION = 2  # of the text that comes out; goes into the counts of what is made of it

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Elements that are dropped with what is in them; the first alternative is the empty element, <ref name="a" />.
_ELEMENTS = (
    "ref|references|gallery|timeline|imagemap|graph|mapframe|maplink|score|hiero|math|chem|ce|syntaxhighlight|source|pre|"
    "templatedata|templatestyles|noinclude|includeonly|indicator|table|style|script|inputbox|section"
)
_DROPPED = re.compile(rf"<({_ELEMENTS})\b(?:[^<>]*/>|[^<>]*>(?:(?!<\1\b).)*?</\1\s*>)", re.DOTALL | re.IGNORECASE)
_NOWIKI = re.compile(r"<nowiki\s*>(.*?)</nowiki\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BRACES = re.compile(r"\{{2,}|\}{2,}")
_BRACKETS = re.compile(r"\[\[|\]\]")
_TABLE = re.compile(r"^[ \t:]*(?:(\{\|)|\|\}(?!\}))", re.MULTILINE)
_EXTERNAL = re.compile(r"\[(?:[a-z]+:)?//[^\s\[\]]*(?:\s+([^\[\]\n]*))?\]", re.IGNORECASE)
_SWITCH = re.compile(r"__[A-Z]+__")
_REST = re.compile(r"'{2,}|\{{2,}|\}{2,}|\[{2,}|\]{2,}|<!--|</?[a-zA-Z][^<>]*>")
_SPACES = re.compile(r"\s+")
_LOOSE = re.compile(r" +([,.;:!?)])")  # where something was dropped before a mark
# How a list, a heading, a rest of a table or a rule begins; or no word at all.
_NO_PROSE = re.compile(r"[*#:;|!=]|\{\||-{4}|[\W_]*\Z")
_FILES = ("file:", "image:", "media:", "category:")
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z]+)*|simple):\S")  # a link to the same article in another language

# Characters that mean markup, and what stands for them while they are plain text.
_MEANING = "[]{}<>|'=*#:;!_"
_HIDE = {ord(shown): 0xE000 + number for number, shown in enumerate(_MEANING)}
_HIDDEN = re.compile("[\ue000-\ue00e]")


def paragraphs(wikitext: str) -> list[str]:
    """The paragraphs of an article, each without markup and line ends; there may be none. Takes any text."""
    text = _COMMENT.sub("", _HIDDEN.sub("", wikitext))  # what is hidden below is then the only text of its kind
    text = _NOWIKI.sub(lambda match: match[1].translate(_HIDE), text)
    while "<" in text and (shorter := _DROPPED.sub("", text)) != text:  # elements in elements, from the inside
        text = shorter
    text = _without_tables(_without_templates(text))
    text = _EXTERNAL.sub(lambda match: match[1] or "", _links(text))
    text = _SWITCH.sub("", _TAG.sub("", text))
    while (shorter := _REST.sub("", text)) != text:  # what only came together when something between was dropped
        text = shorter
    lines = (line for line in text.split("\n") if not _NO_PROSE.match(line.strip()))
    shown = (_SPACES.sub(" ", html.unescape(_shown(_LOOSE.sub(r"\1", line)))).strip() for line in lines)
    return [line for line in shown if line]


def _shown(text: str) -> str:
    return _HIDDEN.sub(lambda match: _MEANING[ord(match[0]) - 0xE000], text)


def _without_templates(text: str) -> str:
    """Drop {{…}} and {{{…}}}, one in another; braces that have no partner are dropped alone."""
    open_runs: list[list[int]] = []  # place and length
    spans = []
    for match in _BRACES.finditer(text):
        start, left = match.start(), len(match[0])
        if text[start] == "{":
            open_runs.append([start, left])
            continue
        while left >= 2 and open_runs:
            run = open_runs[-1]
            used = min(3, left, run[1])
            run[1] -= used
            left -= used
            spans.append((run[0] + run[1], match.end() - left))
            if run[1] < 2:
                open_runs.pop()
        if left >= 2:
            spans.append((match.end() - left, match.end()))
    spans += [(place, place + length) for place, length in open_runs]
    return _cut(text, spans)


def _without_tables(text: str) -> str:
    """Drop {| … |}, one in another; they begin and end at the start of a line. Of one that does not end, the first line
    is dropped here, its rows with all other lines that begin so.
    """
    begun: list[int] = []
    spans = []
    for match in _TABLE.finditer(text):
        if match[1]:
            begun.append(match.start())
        elif begun:
            spans.append((begun.pop(), match.end()))
    for start in begun:
        stop = text.find("\n", start)
        spans.append((start, len(text) if stop < 0 else stop))
    return _cut(text, spans)


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without these spans, which may lie in one another."""
    kept, place = [], 0
    for start, stop in sorted(spans):
        if start > place:
            kept.append(text[place:start])
        place = max(place, stop)
    return "".join([*kept, text[place:]])


def _links(text: str) -> str:
    """Put for [[target|words]] its words; drop figures, categories and links to other languages, with all in them."""
    outer: list[list[str]] = []
    pieces: list[str] = []
    place = 0
    for match in _BRACKETS.finditer(text):
        pieces.append(text[place : match.start()])
        place = match.end()
        if match[0] == "[[":
            outer.append(pieces)
            pieces = []
        elif outer:
            words = _words("".join(pieces))
            pieces = outer.pop()
            pieces.append(words)
    pieces.append(text[place:])
    return "".join(piece for level in [*outer, pieces] for piece in level)


def _words(link: str) -> str:
    """What a link shows."""
    target, bar, words = link.partition("|")
    target = target.strip()
    if target.lower().startswith(_FILES) or (not bar and _LANGUAGE.match(target)):
        return ""
    if bar and not words.strip():  # [[Mercury (planet)|]] shows Mercury
        return re.sub(r"\s*\(.*\)\s*\Z", "", target.rpartition(":")[2])
    return words if bar else target.removeprefix(":")
