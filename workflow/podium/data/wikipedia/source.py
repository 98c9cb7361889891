"""What a source folder holds: which form of Wikipedia, and where its text and its vocabulary are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadInput

FORMS = {
    "text": "the published text: part-%05d-of-00500, eval.txt, vocab.txt",
    "archive": "results_text.tar.gz of MLCommons' storage and vocab.txt; the text is unpacked while it is prepared",
    "wikiextractor": "WikiExtractor's wiki_NN files and vocab.txt; cleaned, split and gathered first (not official)",
}
ARCHIVE = "results_text.tar.gz"
_TEXT_FOLDERS = (".", "text", "results4", "results")  # where the published archives and the reference put the parts
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


def form(folder: Path) -> str:
    """Which of FORMS the folder has; raises BadInput when it has none."""
    if _text_folder(folder):
        return "text"
    if (folder / ARCHIVE).is_file():
        return "archive"
    if any(folder.rglob("wiki_[0-9]*")):
        return "wikiextractor"
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
