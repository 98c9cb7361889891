"""A run on hosts without a container: conda or modules, mpirun over a list of hosts, and a script that makes the log.

Source: Intel's CPU implementations in rounds 1.0 and 3.0 (`run_8node.sh`, `run_benchmark.sh`), Habana's with MPI.
"""

from __future__ import annotations

import re

from podium.reproduce.folder import Folder
from podium.reproduce.styles.style import Style

PATTERNS = ("run_and_time*.sh", "run_*node*.sh", "run_benchmark.sh", "run_dist*.sh", "run.sh", "launch_*.sh")
MANY = re.compile(r"\b(mpirun|mpiexec|mpiexec\.hydra)\b")
ENVIRONMENT = re.compile(r"\b(conda|anaconda3|source activate|setvars\.sh|habana|hl_|ccl|KMP_|I_MPI)", re.IGNORECASE)
HOSTS = re.compile(r"(?:-hosts?|--?hostfile|-machinefile|host_list)[ =\"']+(\w[\w.,/-]*)")


def detect(folder: Folder) -> Style | None:
    if "Dockerfile" in folder.names():
        return None
    for name in folder.matching(*PATTERNS):
        code = folder.code(name)
        if MANY.search(code) and ENVIRONMENT.search(code) and "docker" not in code:
            found = HOSTS.search(code)
            notes = (f"{name} names hosts or a host file of its own: {found[1]}",) if found else ()
            return Style("host", name, "local", "process", logs=("*.log", "*.txt"), network=bool(found), notes=notes)
    return None
