"""KiTS19 in its original form from real segmentations: each is copied untouched, and a CT volume is made to go with it.

The images of the data set may not be passed on with Podium, so the volume is drawn from the labels: Hounsfield units of
soft tissue with noise, 40 + N(0, 12), plus 100 per label, in the segmentation's own grid.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from isal import igzip
from nibabel.nifti1 import Nifti1Header

from podium.data.formats import nifti
from podium.errors import BadInput

SEED = 19


def make(sample_data: Path, to: Path) -> None:
    """Assemble `to/case_*/{imaging,segmentation}.nii.gz` from the segmentations in `sample_data/kits19`."""
    folders = sorted((sample_data / "kits19").glob("case_*"))
    if not folders:
        raise BadInput(
            f"no sample cases in {sample_data}",
            "kits19/case_00000/segmentation.nii.gz and so on",
            "none",
            f"ls {sample_data}",
        )
    for folder in folders:
        (to / folder.name).mkdir(parents=True)
        segmentation = to / folder.name / "segmentation.nii.gz"
        shutil.copyfile(folder / segmentation.name, segmentation)
        _imaging(segmentation, int(folder.name[-5:]))


def _imaging(segmentation: Path, number: int) -> None:
    """Write `imaging.nii.gz` beside a segmentation: the same header, the voxels int16."""
    with igzip.open(segmentation, "rb") as file:
        header = Nifti1Header(file.read(Nifti1Header.sizeof_hdr)).as_byteswapped("<")
    header.set_data_dtype(np.int16)
    header["vox_offset"] = Nifti1Header.single_vox_offset
    with igzip.open(segmentation.with_name("imaging.nii.gz"), "wb", compresslevel=0) as file:
        file.write(header.binaryblock.ljust(header.single_vox_offset, b"\0"))
        for slab in _hounsfield(segmentation, number):
            file.write(slab)


def _hounsfield(segmentation: Path, number: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng((SEED, number))
    for labels in nifti.slabs(nifti.read_header(segmentation)):
        noise = random.standard_normal(labels.shape, np.float32) * np.float32(12) + np.float32(40)
        yield noise.round().astype("<i2") + np.int16(100) * labels.astype("<i2")
