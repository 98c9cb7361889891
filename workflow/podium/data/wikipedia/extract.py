"""Our own extraction of a dump: its articles as plain text, in files such as WikiExtractor writes.

A span of the dump becomes a folder of files of 1 MiB at most, so that the files do not depend on the workers. What is
extracted differs from WikiExtractor's output (see wikitext.py), and so does all that is made of it: it is not official.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from podium import files
from podium.data.tasks import Run
from podium.data.wikipedia import dump
from podium.data.wikipedia.wikitext import paragraphs
from podium.errors import BadInput

FILE_BYTES = 1 << 20  # as WikiExtractor's files
_GROWTH = 0.8  # bytes of text for each byte of the dump: 14.1 GB of 17.8 GB
_DONE = "pages.json"  # beside the files of a span: how many pages of each kind it has


def extract(run: Run, path: Path, to: Path, span: int = dump.SPAN) -> dict[str, int]:
    """Write the articles of a dump into folders below `to`; those that are there from an earlier try stay.

    Returns how many pages there are of each kind. Raises BadInput for a damaged dump, or one without articles.
    """
    size = path.stat().st_size
    files.need_space(to, int(size * _GROWTH), f"the text of {path.name}")
    starts = range(0, size, span)
    folders = [to / f"{number:05d}" for number in range(len(starts))]
    run([partial(_span, path, start, start + span, to) for start, to in zip(starts, folders, strict=True)], "extract")
    counts = sum((Counter(files.read_json(folder / _DONE)) for folder in folders), Counter())
    if not counts["articles"]:
        raise BadInput(f"{path} has no articles", "pages with text in namespace 0", str(dict(counts)), "another dump")
    return dict(sorted(counts.items()))


def _span(path: Path, start: int, stop: int, to: Path) -> None:
    """Write the files of one span; nothing where they are there."""
    if (to / _DONE).exists():
        return
    kinds: Counter[str] = Counter()
    number, held, size = 0, [], 0
    for article in _articles(dump.pages(path, start, stop), kinds):
        if held and size + len(article) > FILE_BYTES:
            _write(to, number, held)
            number, held, size = number + 1, [], 0
        held.append(article)
        size += len(article)
    if held:
        _write(to, number, held)
    files.write_json(to / _DONE, kinds)


def _write(to: Path, number: int, articles: list[bytes]) -> None:
    with files.writing(to / f"wiki_{number:05d}") as file:
        file.writelines(articles)


def _articles(pages: Iterator[dump.Page], kinds: Counter[str]) -> Iterator[bytes]:
    """The articles with text, as WikiExtractor writes them; `kinds` counts what the pages are."""
    for page in pages:
        if page.namespace:
            kinds["other_namespaces"] += 1
        elif page.redirect or page.text.lstrip()[:9].lower() == "#redirect":
            kinds["redirects"] += 1
        elif not (text := paragraphs(page.text)):
            kinds["without_text"] += 1
        else:
            kinds["articles"] += 1
            head = (
                f'<doc id="{page.number}" url="https://en.wikipedia.org/wiki?curid={page.number}" title="{page.title}">'
            )
            body = "\n\n".join(text)
            yield f"{head}\n{page.title}\n\n{body}\n\n</doc>\n".encode("utf-8", "replace")
