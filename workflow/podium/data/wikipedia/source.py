"""What a source folder holds: which form of Wikipedia, and where its text and its vocabulary are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadInput

FORMS = {
    "text": "the published text: part-%05d-of-00500, eval.txt, vocab.txt",
    "archive": "results_text.tar.gz of MLCommons' storage and vocab.txt; the text is unpacked while it is prepared",
    "wikiextractor": "WikiExtractor's wiki_NN files and vocab.txt; cleaned, split and gathered first (not official)",
    "dump": "a dump, enwiki-20200101-pages-articles-multistream.xml.bz2, and vocab.txt; extracted first (not official)",
}
ARCHIVE = "results_text.tar.gz"
# Of the start checkpoint: the names in a layout, where the configs of containers/bert look, and those of sources.
_CHECKPOINT = {
    "tf1_ckpt/model.ckpt-28252.index": ("model.ckpt-28252.index",),
    "tf1_ckpt/model.ckpt-28252.data-00000-of-00001": (
        "model.ckpt-28252.data-00000-of-00001",
        "model.ckpt-28252-003.data-00000-of-00001",
    ),
}
_TEXT_FOLDERS = (".", "text", "results4", "results")  # where the published archives and the reference put the parts
_DUMPS = "*-pages-articles*.xml.bz2"
_DUMP = re.compile(r"[a-z_]+-(\d{8})-pages-articles(-multistream)?\.xml\.bz2")
_ALL_PARTS = 500
_NEXT = "podium fetch wikipedia"


@dataclass(frozen=True)
class Text:
    """The published form: `parts` in order, `evaluation` if there is one, and the vocabulary."""

    parts: list[Path]
    evaluation: Path | None
    vocabulary: Path

    @property
    def texts(self) -> list[Path]:
        """The parts, then the evaluation text."""
        return [*self.parts, *([self.evaluation] if self.evaluation else [])]


def form(folder: Path, made: bool = False) -> str:
    """Which of FORMS the folder has, the published ones first; with `made` only those of which the text is yet to be
    made. Raises BadInput when it has none.
    """
    if not made and _text_folder(folder):
        return "text"
    if not made and (folder / ARCHIVE).is_file():
        return "archive"
    if any(folder.rglob("wiki_[0-9]*")):
        return "wikiextractor"
    if any(folder.glob(_DUMPS)):
        return "dump"
    raise BadInput(f"no Wikipedia in {folder}", " or ".join(FORMS.values()), _listing(folder), _NEXT)


def text(folder: Path) -> Text:
    """The files of the form `text`. A piece of the set may do without eval.txt, the whole may not."""
    place = _text_folder(folder)
    if place is None:
        raise BadInput(f"no text in {folder}", FORMS["text"], _listing(folder), _NEXT)
    parts, evaluation = sorted(place.glob("part-*")), place / "eval.txt"
    if len(parts) == _ALL_PARTS and not evaluation.is_file():
        raise BadInput(f"the text in {folder} is not complete", "eval.txt beside the parts", _listing(folder), _NEXT)
    return Text(parts, evaluation if evaluation.is_file() else None, vocabulary(folder))


def raw_files(folder: Path) -> list[Path]:
    """WikiExtractor's files in the order of their paths (AA/wiki_00, AA/wiki_01, …); raises BadInput without any."""
    found = sorted(path for path in folder.rglob("wiki_*") if path.name[5:].isdigit())
    if not found:
        raise BadInput(f"no files of WikiExtractor in {folder}", FORMS["wikiextractor"], _listing(folder), _NEXT)
    return found


def dump(folder: Path, date: int) -> Path:
    """The dump of that date (20200101) in a folder; raises BadInput for none, another one, or several."""
    found = sorted(path.name for path in folder.glob(_DUMPS))
    if len(found) != 1:
        raise BadInput(
            f"no single dump in {folder}", FORMS["dump"], ", ".join(found) or _listing(folder), f"ls {folder}"
        )
    match = _DUMP.fullmatch(found[0])
    if not match or match[1] != f"{date:08d}":
        raise BadInput(
            f"{found[0]} is another dump",
            f"enwiki-{date:08d}-pages-articles-multistream.xml.bz2",
            found[0],
            "take the dump of the benchmark; for another one, whose results do not compare, set dump_date to its date",
        )
    return folder / found[0]


def checkpoint(folder: Path) -> dict[str, Path]:
    """The files of the start checkpoint (TensorFlow 1), by their names in a layout; none where it is not there.

    MLCommons' storage calls the weights model.ckpt-28252-003.data-…, a name under which TensorFlow does not look for
    them. Raises BadInput for half a checkpoint.
    """
    found = {}
    for name, stored in _CHECKPOINT.items():
        paths = (place / other for place in (folder, folder / "tf1_ckpt") for other in stored)
        if path := next((path for path in paths if path.is_file()), None):
            found[name] = path
    if len(found) == 1:
        raise BadInput(f"half a start checkpoint in {folder}", " and ".join(_CHECKPOINT), *found, _NEXT)
    return found


def vocabulary(folder: Path) -> Path:
    """Where vocab.txt is: in the folder, or beside it where the reference keeps it; it need not exist."""
    for place in (folder, folder.parent, folder / "phase1", folder.parent / "phase1"):
        if (place / "vocab.txt").is_file():
            return place / "vocab.txt"
    return folder / "vocab.txt"


def _text_folder(folder: Path) -> Path | None:
    for name in _TEXT_FOLDERS:
        place = folder / name
        if any(place.glob("part-*")) or (place / "eval.txt").is_file():
            return place
    return None


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "an empty folder"
