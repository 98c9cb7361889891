"""AMD's docker style: NVIDIA's script with ROCm devices, MODEL beside DATADIR and logs LOGDIR/result_<i>.txt.

`runtime_tunables.sh` beside it changes the node (modprobe, cpupower, transparent huge pages) and is never run by us.
Source: the AMD family's implementations in round 5.1.
"""

from __future__ import annotations

from podium.reproduce.folder import Folder
from podium.reproduce.styles import docker
from podium.reproduce.styles.style import Style

TUNABLES = "runtime_tunables.sh"


def detect(folder: Folder) -> Style | None:
    if docker.AMD not in folder.text(docker.ENTRY):
        return None
    notes = (f"{TUNABLES} changes the node's kernel settings: it is not run; read it",)
    return Style("amd", docker.ENTRY, logs=("result_*.txt", "*.log"), notes=notes if TUNABLES in folder.names() else ())
