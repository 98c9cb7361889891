"""KiTS19 to arrays against the reference, in CPU seconds, and the memory of the case that needs most."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from isal import igzip
from measure import MEMORY, SAMPLES, Bench, baseline, missing
from nibabel.nifti1 import Nifti1Header

from podium.data import kits19
from podium.data.formats import nifti
from podium.data.job import Job
from podium.data.kits19 import arrays, cases, published
from podium.data.samples import kits19 as samples

NUMBERS = (7, 12, 15, 38, 87)  # each twice
MANY = 40  # cases to see how two workers share, beyond their start
WORKER = """
import resource, sys
from pathlib import Path
from podium.data.kits19 import arrays, cases
settings = arrays._settings({})
arrays.make_pair(cases.find(Path(sys.argv[1]))[0][0], Path(sys.argv[2]), settings)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def run(bench: Bench, scratch: Path) -> None:
    folders = [SAMPLES / "kits19" / f"case_{number:05d}" for number in NUMBERS]
    if reason := missing(*folders):
        bench.skip("kits19", reason)
        return
    source, to = scratch / "source", (MEMORY if MEMORY.is_dir() else scratch) / f"{scratch.name}-npy"
    make(folders, scratch / "some", source)

    def prepare(workers: int, to: Path, source: Path = source) -> None:
        kits19.prepare(Job(source, "npy", to, {}, workers))

    ours = bench.costs({"ours": lambda: prepare(1, to)}, to)["ours"].cpu
    reference = baseline("kits19_preprocess") - baseline("startup_torch_nibabel_import")
    how = f"CPU seconds of 10 cases: {ours:.2f}, reference {reference:.2f} without its start (baselines.csv)"
    bench.step("kits19", reference / ours, 3, how)
    made, much = sorted(source.rglob("case_*")), scratch / "much"
    for number in range(MANY):
        shutil.copytree(made[number % len(made)], much / f"case_{number:05d}")
    bench.scaling("kits19", lambda workers, to: prepare(workers, to, much), to, "podium.data.kits19")
    for folder in (to, source, much):
        shutil.rmtree(folder)

    name = largest(scratch / "largest")
    (scratch / "pair").mkdir()
    command = [sys.executable, "-c", WORKER, scratch / "largest", scratch / "pair"]
    memory = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    how = f"the largest resident size of a worker, for a volume of the size of {name}"
    bench.step("kits19-memory-gb", memory, 6, how, at_most=True)


def make(folders: list[Path], some: Path, to: Path) -> None:
    """Ten cases: real segmentations with volumes drawn from them, each a second time under another number."""
    for folder in folders:
        shutil.copytree(folder, some / "kits19" / folder.name)
        other = int(folder.name[-5:]) + 100
        shutil.copytree(folder, some / "kits19" / f"case_{other:05d}")
    samples.make(some, to)


def largest(to: Path) -> str:
    """An empty volume like that of the published case whose bound on memory is the largest; returns its name."""
    settings = arrays._settings({})
    known = {
        case.name: nifti.Volume(Path(), case.raw_shape, case.spacing, np.dtype(np.int16), np.eye(4), None, 352)
        for case in published.cases().values()
    }
    name = max(known, key=lambda name: arrays.memory_needed(cases.Case(0, known[name], known[name]), settings))
    for kind, dtype in (("imaging", np.int16), ("segmentation", np.uint8)):
        header = Nifti1Header()
        header.set_data_shape(known[name].shape)
        header.set_zooms(known[name].spacing)
        header.set_data_dtype(dtype)
        header["vox_offset"] = header.single_vox_offset
        (to / name).mkdir(parents=True, exist_ok=True)
        slab = np.zeros(known[name].shape[:2], dtype)
        with igzip.open(to / name / f"{kind}.nii.gz", "wb", compresslevel=1) as file:
            file.write(header.binaryblock.ljust(header.single_vox_offset, b"\0"))
            for _ in range(known[name].shape[2]):
                file.write(slab)
    return name
