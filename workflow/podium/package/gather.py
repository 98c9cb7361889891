"""The facts of all nodes of a system: this one, or each of them by one short job of the system's launcher."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace

from podium import files
from podium.config import Config, System
from podium.errors import BadEnvironment
from podium.package import nodes
from podium.package.nodes import Node
from podium.runs import launchers
from podium.runs.launchers import ENDED, Job

MINUTES = 10  # of the job; a node takes seconds
SUFFIX = ".node.json"


def gather(config: Config, system: System) -> list[Node]:
    """What every node of the system tells, in the order of their names; all nodes at the same time.

    Raises BadEnvironment where the job ends and nodes are missing.
    """
    if system.launcher == "local":
        return [nodes.collect()]
    folder = (config.root / "systems" / f"{system.name}.collected").absolute()
    with files.explained(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    command = [sys.executable, "-m", "podium", "describe", "--node", "--into", str(folder)]
    job = Job(
        name=f"podium-describe-{system.name}-{os.urandom(6).hex()}",
        folder=folder,
        command=lambda cores, gpus: command,
        nodes=system.nodes,
        gpus=system.gpus_per_node,
        minutes=MINUTES,
    )
    # Each node tells of itself alone: no MPI is needed, and one that is broken does not matter.
    launcher = launchers.of(config, replace(system, slurm={**system.slurm, "mpi": "none"}))
    id = launcher.submit(job)
    print(f"describe {system.name}: job {id} on {system.nodes} nodes", file=sys.stderr)
    while launchers.exit_status(folder) is None and launcher.states([id])[id].phase != ENDED:
        time.sleep(max(1.0, min(launcher.interval, 5.0)))
    found = [nodes.from_json(files.read_json(path), str(path)) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    if len(found) < system.nodes:
        output = folder / launchers.OUTPUT
        last = output.read_text(encoding="utf-8", errors="replace").splitlines()[-5:] if output.exists() else []
        raise BadEnvironment(
            f"not all nodes of {system.name} told what they are",
            f"{system.nodes} nodes",
            "\n    ".join([f"{len(found)}: {', '.join(node.host for node in found) or 'none'}", *last]),
            f"see {output}; or run `podium describe --node` on each and give the files by --from",
        )
    return found
