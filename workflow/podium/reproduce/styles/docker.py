"""NVIDIA's docker style: `source config_X.sh; CONT=… DATADIR=… LOGDIR=… ./run_with_docker.sh` on one node.

The script starts a container that sleeps, and runs `docker exec … ./run_and_time.sh` in it, NEXP times; each run's log
is LOGDIR/<DATESTAMP>_<i>.log. Source: the READMEs of the implementations in the published rounds 0.7 to 3.1.
"""

from __future__ import annotations

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

ENTRY = "run_with_docker.sh"
AMD = "/dev/kfd"  # the device that AMD's containers need: their style, although the script has the same name


def detect(folder: Folder) -> Style | None:
    if ENTRY not in folder.names() or AMD in folder.text(ENTRY):
        return None
    return Style("docker", ENTRY)
