"""Batch scripts that start singularity or apptainer: `sbatch run.slurm` with a local .sif image, MPI outside of it.

Source: Dell's implementations in rounds 1.0 and 3.0. The scripts name nodes, partitions, modules and a home folder of
their cluster: `sbatch` options on our line win over theirs, and shims answer for `module`.
"""

from __future__ import annotations

import re

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

NODES = re.compile(r"(?m)^#SBATCH +(?:-w|--nodelist)[ =]*(\S+)")


def detect(folder: Folder) -> Style | None:
    for name in folder.matching("*.slurm", "*.sub", "*.sbatch"):
        code = folder.code(name)
        if re.search(r"\b(singularity|apptainer) (exec|run)\b", code):
            wanted = NODES.search(folder.text(name))
            notes = (f"{name} asks for its own nodes {wanted[1]}: another --nodelist must be given",) if wanted else ()
            return Style("apptainer", name, "slurm", "apptainer", network=True, notes=notes)
    return None
