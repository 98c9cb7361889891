"""NVIDIA's Slurm style: `source config_X.sh; CONT=… DATADIR=… LOGDIR=… sbatch -N $DGXNNODES -t $WALLTIME run.sub`.

The job starts its container by the Slurm plugin pyxis (enroot images) and runs `srun … ./run_and_time.sh`, NEXP times;
each run's log is LOGDIR/<DATESTAMP>_<i>.log. Source: the READMEs of the implementations, rounds 0.6 to 5.1.
"""

from __future__ import annotations

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

ENTRY = "run.sub"


def detect(folder: Folder) -> Style | None:
    for name in (ENTRY, *folder.matching("run*.sub")):
        if "--container-image" in folder.text(name):
            return Style("slurm", name, "slurm", "enroot", network=True)
    return None
