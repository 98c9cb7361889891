"""Clean-up of WikiExtractor's output: document tags, titles and left-over wiki and HTML markup.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/{cleanup_file.py,clean.sh}. The order of the
substitutions matters. They all work within a line, so they run once over the few lines that hold any markup, joined.
"""

from __future__ import annotations

import re

_CATEGORY = re.compile(rb"\[\[Category:[^\[\]]*\]\]")  # a line with one is dropped

_TAGS = (
    "<math> </math> <ref> </ref>",
    "<sup> </sup> <br> </br> <BR> </BR> <Br> </Br> <del> </del> <nowiki> </nowiki> <NOWIKI> </NOWIKI>",
    "<onlyinclude> </onlyinclude> <includeonly> </includeonly> <small> </small> <chem> </chem>",
    "<noinclude> </noinclude> <gallery> </gallery> <graph>{ <graph> }</graph> </graph> </references>",
)

# Pattern and what takes its place, in the order of clean.sh. [^\\]* is greedy there too: it reaches the last />.
_SUBSTITUTIONS = [
    (re.compile(pattern.encode()), by)
    for pattern, by in (
        *2 * [(r"\[\[([^\[\]|\n]*)\]\]", rb"\1")],
        *2 * [(r"\[\[[^\[\]|\n]*\|([^\[\]|\n]*)\]\]", rb"\1")],
        (r"\[\[:*[Ff]ile:[^\[\]\n]*\]\]", b""),
        (r"\[\[[Mm]edia:[^\[\]\n]*\]\]", b""),
        (r"\[\[[Ii]mage:[^\[\]\n]*\]\]", b""),
        (r"\[([^\[\]|\n]*)\]", rb"\1"),
        (r"\[\[[^\[\]\n]*\]\]", b""),
        (r"alt=", b""),
        (r"</doc>", b"\r"),
        (r"<chem([^<\n]*)</chem>", rb"\1"),
        (r"<ins([^<\n]*)</ins>", rb"\1"),
        (r"<, ref [^<\n]*</ref>", b""),
        (r"<includeonly[^<\n]*</includeonly>", b""),
        (r"<graph[^<\n]*</graph>", b""),
        (r"<section[^\\\n]*/>", b""),
        (r"<meta[^\\\n]*/>", b""),
        (r"<hr[^\\\n]*/>", b""),
        (r"<gallery[^>\n]*>", b""),
        (r"<ref[^<\n]*</ref>", b""),
        (r"<ref[^>\n]*>", b""),
        (r"<http[^>\n]*>", b""),
        (r"<Ref[^>\n]*>", b""),
        (r"<mapframe [^/\n]*/>", b""),
        (r"<mapframe[^>\n]*>", b""),
        (r"</mapframe>", b""),
        (r"<poem>", b""),
        (r"</poem>", b""),
        *((re.escape(tag), b"") for tag in _TAGS[0].split()),
        (r"<div[^>\n]*>", b""),
        (r"</div[^>\n]*>", b""),
        *((re.escape(tag), b"") for line in _TAGS[1:] for tag in line.split()),
        (r"<poem [^>\n]*>", b""),
    )
]


def without_tags(content: bytes) -> bytes:
    """Drop `<doc …>` and the title line after it (an empty line instead), `</doc>` and empty lines."""
    if b"\r" in content:  # read as text there: each of \r\n, \r and \n ends a line
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = content.split(b"\n")
    last = lines.pop()  # what follows the last line end; a single character there is taken for an empty line
    ended = [line + b"\n" for line in lines] + ([last] if len(last.decode("utf-8")) > 1 else [])
    kept: list[bytes] = []
    rest = iter(ended)
    for line in rest:
        if b"<doc" in line:
            kept.append(b"\n")
            next(rest, None)
        elif line != b"\n" and b"</doc>" not in line:
            kept.append(line)
    return b"".join(kept)


def without_markup(content: bytes) -> bytes:
    """Replace links by their text and drop the markup that WikiExtractor leaves in what `without_tags` returns."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if b"[[Category:" in content:
        lines = [line for line in lines if not _CATEGORY.search(line)]
    marked = [number for number, line in enumerate(lines) if b"<" in line or b"[" in line or b"alt=" in line]
    if marked:
        text = b"\n".join([lines[number] for number in marked])
        for pattern, by in _SUBSTITUTIONS:
            text = pattern.sub(by, text)
        for number, line in zip(marked, text.split(b"\n"), strict=True):
            lines[number] = line
    return b"".join([line + b"\n" for line in lines])
