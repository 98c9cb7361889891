"""Engine `docker`: an image in the store of a Docker daemon. The daemon owns a container, which outlives its client."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from podium.errors import BadEnvironment
from podium.images.engines import request, store
from podium.images.engines.request import Availability, Run
from podium.images.lock import Image


def available() -> Availability:
    """Whether the daemon answers, with the server's version."""
    return request.ask("docker", "version", "--format", "{{.Server.Version}}")


def builder() -> str:
    """The client that can build with BuildKit: with the buildx plugin, or old enough (below 23) to need none.

    Raises BadEnvironment where there is none.
    """
    for program in filter(None, (shutil.which("docker"), shutil.which("docker", path="/usr/bin"))):
        version = re.search(r"version (\d+)", request.output(program, "--version"))
        if (version and int(version[1]) < 23) or request.output(program, "buildx", "version"):
            return program
    raise BadEnvironment(
        "no client of Docker that can build",
        "docker with the buildx plugin, or docker below 23",
        shutil.which("docker") or "no docker on the PATH",
        "Debian: apt-get install docker.io (from trixie on: docker-cli docker-buildx); or engine podman",
    )


def command(run: Run) -> list[str]:
    """`docker run`: removed when it ends, pulled never, and without the image's entrypoint, as on a cluster."""
    user = run.user or request.caller()
    words = ["docker", "run", *store.options(run), f"--user={user[0]}:{user[1]}", *_devices(run)]
    # Containers are the daemon's children: they do not inherit the affinity of their client.
    words += [f"--cpuset-cpus={','.join(map(str, run.cores))}"] if run.cores else []
    return [*words, run.image.id, *request.start(run)]


def _devices(run: Run) -> list[str]:
    words = [f"--device={node}" for node in run.nodes]
    if not run.gpus:
        return words
    numbers = ",".join(map(str, run.gpus))
    if run.devices == "nvidia":
        return [*words, f'--gpus="device={numbers}"']  # the quotes are Docker's: it reads the value as CSV
    if run.devices == "gaudi":
        return [*words, "--runtime=habana", f"--env=HABANA_VISIBLE_DEVICES={numbers}", "--cap-add=sys_nice"]
    return [*words, *store.devices(run)]


def stop(name: str, seconds: int) -> list[list[str]]:
    """Stopped within `seconds`, removed with its anonymous volumes, if it is there at all."""
    return [["docker", "stop", f"--time={seconds}", name], ["docker", "rm", "--force", "--volumes", name]]


def held(image: Image) -> Image:
    """The image with the id by which this daemon calls it."""
    return store.held("docker", image)


def mounted(container: str, folder: Path) -> list[str] | None:
    """Words before a command that let it, and nobody else, see a container's files in `folder`, an empty one.

    None where that takes a copy: for root alone, with the storage driver overlay2, whose folder of a container names
    the layers beneath it as its daemon mounts them: relative and short, since mount(2) takes a page of options.
    """
    told = request.output("docker", "inspect", "--format={{.GraphDriver.Data.UpperDir}}", container)
    place = Path(told.strip()).parent
    if os.geteuid() != 0 or not told.startswith("/") or not (place / "lower").is_file():
        return None
    layers = f"{place.name}/diff:{(place / 'lower').read_text(encoding='ascii').strip()}"
    script = 'cd "$0" && mount -t overlay -o "ro,lowerdir=$1" overlay "$2" && cd / && shift 2 && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(place.parent), layers, str(folder)]
