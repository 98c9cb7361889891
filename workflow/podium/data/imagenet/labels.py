"""The classes of the validation images, which their file names do not tell, from any of the lists that are around."""

from __future__ import annotations

import csv
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from podium.data.formats import mat
from podium.errors import BadInput

FORMS = (
    "a text file with one wnid a line and `label` in its name, LOC_val_solution.csv, valprep.sh, "
    "or ILSVRC2012_devkit_t12 (folder or .tar.gz)"
)
_WNID = re.compile(r"n\d{8}")
_TRUTH, _CLASSES = "data/ILSVRC2012_validation_ground_truth.txt", "data/meta.mat"


def of_validation(folder: Path, names: list[str]) -> list[str]:
    """The wnid of each of the validation images `names`, which are in sorted order.

    Every list in `folder` is read and all must agree. Raises BadInput when there is none, when one does not fit the
    images, and when two contradict each other.
    """
    found = {path: reader(path, names) for path in sorted(folder.iterdir()) if (reader := _reader(path)) is not None}
    if not found:
        raise BadInput(f"{folder}: no labels for {len(names)} flat validation images", FORMS, "none", f"ls -l {folder}")
    (first, wnids), *others = found.items()
    for path, other in others:
        differing = [number for number, pair in enumerate(zip(wnids, other, strict=True)) if pair[0] != pair[1]]
        if differing:
            number = differing[0]
            raise BadInput(
                f"{first} and {path.name} disagree",
                f"the same class for {names[number]}",
                f"{wnids[number]} and {other[number]}; {len(differing)} images differ",
                "remove the list that is wrong",
            )
    return wnids


def _reader(path: Path) -> Callable[[Path, list[str]], list[str]] | None:
    """The function that reads a list of labels, or None for a file that is none."""
    if path.name.startswith("ILSVRC2012_devkit_t12"):
        return _devkit
    if path.suffix == ".txt" and "label" in path.name:
        return _lines
    return {"LOC_val_solution.csv": _kaggle, "valprep.sh": _moves}.get(path.name)


def _lines(path: Path, names: list[str]) -> list[str]:
    """One wnid a line, in the order of the images' names (models/research/inception)."""
    lines = path.read_text(encoding="utf-8").split()
    wrong = next((line for line in lines if not _WNID.fullmatch(line)), None)
    if wrong is not None:
        hint = "numbers, whose base and order nobody knows" if wrong.isdigit() else "no wnid"
        raise BadInput(f"{path}: not a list of wnids", "lines such as n01440764", f"{wrong!r}: {hint}", f"use {FORMS}")
    return _fitting(path, lines, names)


def _kaggle(path: Path, names: list[str]) -> list[str]:
    """Columns ImageId and PredictionString: the wnid and a box, once or more."""
    with path.open(newline="", encoding="utf-8") as file:
        return _by_name(path, {row["ImageId"]: row["PredictionString"][:9] for row in csv.DictReader(file)}, names)


def _moves(path: Path, names: list[str]) -> list[str]:
    """Lines `mv <name>.JPEG <wnid>/` of the script that sorts the images into folders."""
    moves = re.findall(r"^mv (\S+) (n\d{8})/?$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return _by_name(path, {Path(name).stem: wnid for name, wnid in moves}, names)


def _devkit(path: Path, names: list[str]) -> list[str]:
    """ILSVRC2012_ID a line, and the wnid of each ID in meta.mat; an ID is not a label (its order is another one)."""
    try:
        truth, classes = _devkit_files(path)
        rows = mat.read(classes)["synsets"]
        wnids = {int(row["ILSVRC2012_ID"][0]): row["WNID"] for row in rows}
        return _fitting(path, [wnids[int(line)] for line in truth.split()], names)
    except (OSError, EOFError, KeyError, ValueError, IndexError, tarfile.TarError, zlib.error) as error:
        raise BadInput(
            f"{path}: the development kit cannot be read", f"{_TRUTH} and {_CLASSES}", repr(error), "fetch it again"
        ) from error


def _devkit_files(path: Path) -> tuple[str, bytes]:
    if path.is_dir():
        return (path / _TRUTH).read_text(), (path / _CLASSES).read_bytes()
    with tarfile.open(path) as archive:
        found = {
            wanted: archive.extractfile(member).read()
            for member in archive
            for wanted in (_TRUTH, _CLASSES)
            if member.isfile() and member.name.endswith(wanted)
        }
    return found[_TRUTH].decode(), found[_CLASSES]


def _by_name(path: Path, wnids: dict[str, str], names: list[str]) -> list[str]:
    missing = [name for name in names if Path(name).stem not in wnids]
    if missing:
        raise _mismatch(path, f"a label for {missing[0]}", f"none; {len(missing)} of {len(names)} images lack one")
    return [wnids[Path(name).stem] for name in names]


def _fitting(path: Path, wnids: list[str], names: list[str]) -> list[str]:
    if len(wnids) != len(names):
        raise _mismatch(path, f"{len(names)} labels, one for each image", f"{len(wnids)} labels")
    return wnids


def _mismatch(path: Path, expected: str, found: str) -> BadInput:
    return BadInput(f"{path} does not fit the validation images", expected, found, "fetch both again")
