"""The bare contract: `./run_and_time.sh` with DATADIR, LOGDIR and SEED in the environment, on this node as it is.

It is Podium's own contract (containers/README.md), and that of submitters who give one script for each system. A
Dockerfile beside it is built, and the script is started inside.
"""

from __future__ import annotations

import re

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

NAMES = ("run_and_time.sh", "run_and_time_multinode.sh", "run_train_multi.sh", "run_single_machine.sh")
LAUNCHER = re.compile(r"\b(sbatch|docker run)\b")


def detect(folder: Folder) -> Style | None:
    for name in (*NAMES, *folder.matching("launch_*.sh")):
        if name in folder.names():
            starts = LAUNCHER.search(folder.code(name))
            packed = "Dockerfile" in folder.names() or (starts and starts[1] == "docker run")
            launcher = "slurm" if starts and starts[1] == "sbatch" else "local"
            return Style("plain", name, launcher, "docker" if packed else "process", logs=("*.log", "*.txt"))
    return None
