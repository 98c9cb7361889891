"""A dump of Wikipedia, `<wiki>-<date>-pages-articles[-multistream].xml.bz2`, read span by span.

The file is bzip2 streams one after the other; in a multistream dump each holds about 100 pages. A span is some of its
bytes: the pages of a span are those that begin in the streams that begin in it, wherever they end, so that spans can be
read apart and in any order, however the file was compressed.
"""

from __future__ import annotations

import bz2
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from podium.errors import BadInput

SPAN = 16 << 20  # bytes: about 1,000 spans in the dump of 2020, a minute of work each
_CHUNK = 1 << 18
_START = re.compile(rb"BZh[1-9]1AY&SY")  # of a stream that is not empty
_OPEN, _CLOSE, _LAST = b"<page>", b"</page>", b"</mediawiki>"
_HEAD, _TAIL = 10, 64  # bytes: of what _START or <mediawiki has; kept of the content where a tag may be cut
_LONGEST = 64 << 20  # bytes of one page; Wikipedia allows 2 MiB of text

_TITLE = re.compile(rb"<title>(.*?)</title>", re.DOTALL)
_NAMESPACE = re.compile(rb"<ns>(-?\d+)</ns>")
_ID = re.compile(rb"<id>(\d+)</id>")
_TEXT = re.compile(rb"<text\b[^>]*?(?:/>|>(.*?)</text>)", re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page as its dump has it: `namespace` 0 is an article, and `text` wikitext."""

    number: int
    title: str
    namespace: int
    redirect: bool
    text: str


def pages(path: Path, start: int, stop: int) -> Iterator[Page]:
    """The pages of the span of bytes from `start` to before `stop`.

    Raises BadInput for a file that is no dump, is damaged or was cut off, naming the byte of the file.
    """
    for content in _page_contents(path, start, stop):
        yield _page(path, content)


def _page(path: Path, content: bytes) -> Page:
    title, namespace, number = (pattern.search(content) for pattern in (_TITLE, _NAMESPACE, _ID))
    text = _TEXT.search(content)
    if not (title and namespace and number and text):
        raise _bad(path, "pages with title, ns, id and text", f"{content[:80]!r}")
    redirect = b"<redirect " in content[: text.start()]
    return Page(int(number[1]), _shown(path, title[1]), int(namespace[1]), redirect, _shown(path, text[1] or b""))


def _shown(path: Path, content: bytes) -> str:
    """The characters that XML content stands for."""
    try:
        return html.unescape(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _bad(path, "UTF-8", str(error)) from error


def _page_contents(path: Path, start: int, stop: int) -> Iterator[bytes]:
    """What is between <page> and </page>, of each page of a span."""
    held, own_bytes, first, known = b"", None, start == 0, start == 0
    for piece, own in _pieces(path, start, stop):
        if not own and own_bytes is None:
            own_bytes = len(held)
        held += piece
        if first and len(held) > _HEAD:
            if not held.lstrip().startswith((b"<mediawiki", b"<?xml")):
                raise _bad(path, "XML of MediaWiki", f"{held[:60]!r}")
            first = False
        place = 0
        while (begin := held.find(_OPEN, place)) >= 0 and (own_bytes is None or begin < own_bytes):
            end = held.find(_CLOSE, begin)
            if end < 0:
                break
            yield held[begin + len(_OPEN) : end]
            place, known = end + len(_CLOSE), True
        # Behind the span only a page that has begun in it is read on; its tag may be cut by the end of the span.
        if own_bytes is not None and (begin >= own_bytes or (begin < 0 and len(held) >= own_bytes + len(_OPEN))):
            return
        place = begin if begin >= 0 else max(place, len(held) - _TAIL)
        held, own_bytes = held[place:], None if own_bytes is None else own_bytes - place
        if len(held) > _LONGEST:
            raise _bad(path, f"pages of less than {_LONGEST} bytes", f"{held[:80]!r} and more")
    # The file has ended. Where no page of the span did, its content may begin within the last tag.
    rest = held.rstrip()
    if rest.startswith(_OPEN) or not (rest.endswith(_LAST) or (_LAST.endswith(rest) and not known)):
        raise _bad(path, "</mediawiki> at its end", f"{held[-60:]!r}: it was cut off")


def _pieces(path: Path, start: int, stop: int) -> Iterator[tuple[bytes, bool]]:
    """The content of the streams that begin in a span, then of those behind it; and whether the stream begins in it."""
    with path.open("rb") as file:
        begin = 0 if start == 0 else _first_stream(file, start, stop)
        if begin is None:
            return
        file.seek(begin)
        data = b""
        while data := data or file.read(_CHUNK):
            begin = file.tell() - len(data)
            stream = bz2.BZ2Decompressor()
            while not stream.eof:
                if stream.needs_input and not data and not (data := file.read(_CHUNK)):
                    raise _bad(path, "whole bzip2 streams", f"its end in the stream that begins at byte {begin}")
                try:
                    content = stream.decompress(data, _CHUNK)
                except OSError as error:
                    raise _bad(path, "bzip2", f"{error} in the stream that begins at byte {begin}") from error
                data = b""
                if content:
                    yield content, begin < stop
            data = stream.unused_data


def _first_stream(file: IO[bytes], start: int, stop: int) -> int | None:
    """Where the first stream of a span begins."""
    file.seek(start)
    held = b""
    while start < stop and (data := file.read(_CHUNK)):
        held += data
        if match := _START.search(held):
            return start + match.start() if start + match.start() < stop else None
        kept = min(len(held), _HEAD - 1)
        start, held = start + len(held) - kept, held[len(held) - kept :]
    return None


def _bad(path: Path, expected: str, found: str) -> BadInput:
    return BadInput(
        f"{path} is not a dump", expected, found, "download it again, and compare its md5 with the published"
    )
