"""The ways in which submitters automate their runs: one module each, with a pure `detect(folder)`.

docker     run_with_docker.sh on one node            apptainer  sbatch with a .sif image
slurm      sbatch run.sub with pyxis                 host       no container: conda and mpirun
amd        run_with_docker.sh with ROCm devices      plain      run_and_time.sh alone: the bare contract
wrapper    a folder for each system, beside the code refused    not runnable, because …
"""

from __future__ import annotations

from types import ModuleType

from podium.reproduce.folder import Folder
from podium.reproduce.styles import amd, apptainer, docker, host, plain, refused, slurm, wrapper
from podium.reproduce.styles.style import Start, Style

CODE: dict[str, ModuleType] = {"docker": docker, "amd": amd, "slurm": slurm, "apptainer": apptainer}
ALONE: dict[str, ModuleType] = {"wrapper": wrapper, "host": host, "plain": plain}


def of(folder: Folder) -> tuple[Style, ...]:
    """Every way to start an implementation, best first; one refusal where there is none."""
    if no := refused.detect(folder):
        return (no,)
    found = tuple(style for module in CODE.values() if (style := module.detect(folder)))
    if not found:
        found = next(((style,) for module in ALONE.values() if (style := module.detect(folder))), ())
    return found or (refused.nothing(folder),)


def command(style: Style, size: Start) -> list[str]:
    """The line that starts a run, from the folder of the code with its config sourced."""
    if style.launcher == "local":
        return ["bash", f"./{style.entry}"]
    # Outside of pyxis the script counts Slurm's tasks to know how many processes MPI starts.
    tasks = ["-n", str(size.nodes * max(size.gpus, 1))] if style.engine == "apptainer" else []
    return ["sbatch", "--wait", "-N", str(size.nodes), *tasks, "-t", str(size.minutes), f"./{style.entry}"]
