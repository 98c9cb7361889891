"""The source: which cases a folder holds, and whether image and segmentation of each belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podium.data.formats import nifti
from podium.errors import BadInput

FORMS = {
    "cases": "case_00000/{imaging,segmentation}.nii.gz and so on, in the folder or below data/ (a clone) or input/",
    "hub": "data/case_00000/segmentation.nii.gz and images/case_00000.nii.gz: the clone, and the imaging as published",
}
LIMIT = 210  # the cases from here on belong to the challenge's test set and have no public segmentation

_FOLDERS = ("data", ".", "input")  # where the cases are: in a clone of kits19, as they are, beside expected results
_NAME = re.compile(r"case_(\d{5})")


@dataclass(frozen=True)
class Case:
    """One patient: a CT volume in Hounsfield units and its labels (0 background, 1 kidney, 2 tumour)."""

    number: int
    imaging: nifti.Volume
    segmentation: nifti.Volume

    @property
    def name(self) -> str:
        return f"case_{self.number:05d}"


def find(source: Path) -> tuple[list[Case], int]:
    """The cases below `source` in order, and how many were skipped for a number of 210 or more.

    Only headers are read. Raises BadInput naming every case with a missing or unreadable file, or whose image and
    segmentation differ in shape, voxel size or position.
    """
    root = next((place for name in _FOLDERS if any((place := source / name).glob("case_*"))), source)
    folders = [folder for folder in sorted(root.glob("case_*")) if folder.is_dir() and _NAME.fullmatch(folder.name)]
    if not folders:
        raise BadInput(
            f"no cases in {source}", "folders case_00000, case_00001, ...", "none of them", "podium prepare --help"
        )
    numbers = {int(folder.name[-5:]): folder for folder in folders}
    wanted = {number: folder for number, folder in numbers.items() if number < LIMIT}
    found, errors = [], []
    for number, folder in wanted.items():
        try:
            found.append(_case(number, folder, source))
        except BadInput as error:
            errors.append(error)
    if errors:
        raise together(source, errors)
    return found, len(numbers) - len(wanted)


def together(source: Path, errors: Sequence[BadInput]) -> BadInput:
    """One error for all that is wrong with the source; a single one stays as it is."""
    if len(errors) == 1:
        return errors[0]
    lines = [f"{error.thing}: expected {error.expected}; found {error.found}" for error in errors]
    return BadInput(
        f"{len(errors)} cases in {source} cannot be used",
        "whole files, and image and segmentation of one grid",
        "".join(f"\n    {line}" for line in lines),
        errors[0].next,
    )


def _case(number: int, folder: Path, source: Path) -> Case:
    imaging = next(
        (path for path in (folder / "imaging.nii.gz", source / "images" / f"{folder.name}.nii.gz") if path.exists()),
        folder / "imaging.nii.gz",
    )
    segmentation = folder / "segmentation.nii.gz"
    missing = [path.name for path in (imaging, segmentation) if not path.exists()]
    if missing:
        raise BadInput(
            f"{folder.name} is not complete",
            "imaging.nii.gz and segmentation.nii.gz",
            f"no {' and no '.join(missing)} in {folder}",
            "podium fetch kits19",
        )
    case = Case(number, nifti.read_header(imaging), nifti.read_header(segmentation))
    image, labels = case.imaging, case.segmentation
    for what, expected, found in (
        ("shape", image.shape, labels.shape),
        ("voxel size", image.spacing, labels.spacing),
        ("position", image.affine.round(4).tolist(), labels.affine.round(4).tolist()),
    ):
        if not np.allclose(expected, found, rtol=1e-3, atol=1e-3):
            raise BadInput(
                f"{case.name}: image and segmentation differ in {what}",
                f"{what} {expected} of {imaging}",
                f"{what} {found} in {segmentation}",
                f"rm {imaging} {segmentation} and fetch them again",
            )
    return case
