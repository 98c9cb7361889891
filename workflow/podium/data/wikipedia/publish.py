"""From WikiExtractor's files to the form in which the text is published: parts, eval.txt, eval.md5.

The bytes are not those of the published text, even from the same dump: WikiExtractor writes today's date where a page
asks for it, and the segmentation differs (see sentences.py). A `wiki_NN.3` that was segmented elsewhere is taken as it
is.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from podium import files
from podium.data.tasks import Run
from podium.data.wikipedia import clean, gather, sentences, split
from podium.errors import BadInput


@dataclass(frozen=True)
class RawFile:
    """One file of WikiExtractor: its place among all files decides which articles are held out."""

    path: Path
    number: int
    of: int
    segmented: Path | None  # its .3 file, where there is one


@dataclass(frozen=True)
class Cut:
    """How much is held out, and how large the parts are."""

    eval_articles: int = split.ARTICLES
    block_mib: float = gather.BLOCK_MIB


def publish(raw: Sequence[Path], to: Path, cut: Cut, run: Run) -> None:
    """Write parts, eval.txt and eval.md5 into `to`; parts that are there from an earlier try stay."""
    members = [RawFile(path, number, len(raw), _segmented_elsewhere(path)) for number, path in enumerate(raw)]
    groups = gather.groups([path.stat().st_size for path in raw], cut.block_mib)
    names = [gather.NAME.format(number) for number in range(len(groups))]
    held = [to / "held" / f"{name}.json" for name in names]
    run(
        [
            partial(_write_part, [members[number] for number in group], to / name, path, cut)
            for group, name, path in zip(groups, names, held, strict=True)
        ],
        "clean-up",
    )
    _write_evaluation(held, to)
    shutil.rmtree(to / "held")


def _write_part(members: Sequence[RawFile], to: Path, held: Path, cut: Cut) -> None:
    """Write one text part, and into `held` the articles held out of its files; nothing where both are there."""
    if to.exists() and held.exists():
        return
    pieces, evaluation = [], []
    for member in members:
        train, articles = split.split(_segmented(member), member.number, member.of, cut.eval_articles)
        pieces.append(gather.tail_cut(train))
        evaluation += articles
    files.write_json(held, evaluation)
    files.write_text(to, "".join(pieces))


def _segmented(member: RawFile) -> str:
    """The text of one file, cleaned, a sentence a line. Raises BadInput when it is not UTF-8 or holds no `<doc`."""
    try:
        if member.segmented:
            return member.segmented.read_bytes().decode("utf-8")
        content = member.path.read_bytes()
        if b"<doc " not in content:
            raise _bad(member.path, f"{len(content)} bytes without `<doc `")
        return sentences.one_a_line(clean.without_markup(clean.without_tags(content)))
    except UnicodeDecodeError as error:
        raise _bad(member.path, str(error)) from error


def _write_evaluation(held: Sequence[Path], folder: Path) -> None:
    """Put the held-out articles of all parts together: eval.txt and eval.md5."""
    articles = [article for path in held for article in files.read_json(path)]
    files.write_text(folder / "eval.txt", "".join([f"{article}\n\n" for article in articles]))
    files.write_text(folder / "eval.md5", "".join([f"{split.article_md5(article)}\n" for article in articles]))


def _segmented_elsewhere(raw: Path) -> Path | None:
    """The .3 file beside a raw file, or in the folder `text` beside its folder."""
    places = (raw.with_name(f"{raw.name}.3"), raw.parent.parent / "text" / f"{raw.name}.3")
    return next((place for place in places if place.is_file()), None)


def _bad(path: Path, found: str) -> BadInput:
    return BadInput(
        f"{path} is not WikiExtractor's", "articles in <doc …> … </doc>, UTF-8", found, "extract the dump again"
    )
