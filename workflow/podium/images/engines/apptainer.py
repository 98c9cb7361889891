"""Engine `apptainer`: a .sif file, run by an unprivileged user; everything of a run dies with its command."""

from __future__ import annotations

from podium.errors import BadInput
from podium.images.engines import request
from podium.images.engines.process import VISIBLE
from podium.images.engines.request import Availability, Run
from podium.images.lock import Image, held_file


def available() -> Availability:
    """Whether apptainer answers, with its version."""
    return request.ask("apptainer", "version")


def command(run: Run) -> list[str]:
    """`apptainer exec`, with the image's environment alone; /tmp, /dev and IPC are the host's, as on clusters."""
    if run.user is not None or run.limits:
        raise BadInput(
            "apptainer runs as the caller, with the caller's limits",
            "no user and no limits",
            f"user {run.user}, limits {dict(run.limits)}",
            "set limits in the job that calls it",
        )
    words = ["apptainer", "exec", "--cleanenv", "--no-eval", "--pid", "--no-mount=home,cwd", f"--pwd={run.folder}"]
    words += [] if run.network else ["--net", "--network=none"]
    words += [] if run.read_only else ["--writable-tmpfs"]
    for mount in request.mounts(run):
        words.append(f"--bind={mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}")
    if run.gpus:  # `--env` takes commas as they are: it is given once for each variable
        words += {"nvidia": ["--nv"], "cdi": ["--nv"], "rocm": ["--rocm"], "gaudi": []}[run.devices]
        words += [f"--env={VISIBLE[run.devices]}={','.join(map(str, run.gpus))}"]
    return [*words, run.image.exports["sif"].path, *request.start(run)]


def stop(name: str, seconds: int) -> list[list[str]]:
    """Nothing: a run is its command's child, in a PID namespace that ends with it."""
    return []


def held(image: Image) -> Image:
    """The image, whose .sif file must be the one that was exported."""
    return held_file(image, "sif")
