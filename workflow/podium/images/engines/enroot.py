"""Engine `enroot`: a .sqsh file, run by an unprivileged user; on Slurm by pyxis, its plugin for srun.

The .sqsh is one that `podium export` makes: it has no /etc/rc, so that a command is executed as it stands.
"""

from __future__ import annotations

from podium.errors import BadInput
from podium.images.engines import request
from podium.images.engines.request import Availability, Run
from podium.images.lock import Image, held_file

VISIBLE = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "cdi": "NVIDIA_VISIBLE_DEVICES", "gaudi": "HABANA_VISIBLE_DEVICES"}


def available() -> Availability:
    """Whether enroot answers, with its version."""
    return request.ask("enroot", "version")


def command(run: Run) -> list[str]:
    """`enroot start` of the file itself (by squashfuse and fuse-overlayfs): no container is made, so none stays."""
    _refuse(run)
    words = ["enroot", "start"] + ([] if run.read_only else ["--rw"])
    for mount in request.mounts(run):
        options = f"x-create=auto,bind,{'ro' if mount.read_only else 'rw'}"
        words.append(f"--mount={mount.source}:{mount.target}:none:{options}")
    if run.gpus and run.devices == "rocm":
        words += [f"--mount={node}:{node}:none:x-create=auto,bind,rw" for node in ("/dev/kfd", "/dev/dri")]
        words += [f"--env=HIP_VISIBLE_DEVICES={_numbers(run)}"]
    elif run.gpus:
        words += [f"--env={VISIBLE[run.devices]}={_numbers(run)}"]
    return [*words, run.image.exports["sqsh"].path, "env", f"--chdir={run.folder}", *request.start(run)]


def srun_flags(run: Run) -> list[str]:
    """pyxis' flags for srun, whose words are `start(run)`: the container has no name, so pyxis removes it at the end.

    Which accelerators a task sees is Slurm's to say (--gpus-per-node …).
    """
    _refuse(run)
    words = [f"--container-image={run.image.exports['sqsh'].path}", f"--container-workdir={run.folder}"]
    mounts = [f"{item.source}:{item.target}:{'ro' if item.read_only else 'rw'}" for item in request.mounts(run)]
    words += [f"--container-mounts={','.join(mounts)}"] if mounts else []
    words += ["--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint"]
    return [*words, "--container-readonly" if run.read_only else "--container-writable"]


def _refuse(run: Run) -> None:
    if not run.network or run.user is not None or run.limits:
        raise BadInput(
            "enroot neither cuts a run off the network nor changes its user or limits",
            "engine docker, podman or apptainer for a run without network",
            f"network {run.network}, user {run.user}, limits {dict(run.limits)}",
            "choose another engine in the config; set limits in the job that calls it",
        )


def _numbers(run: Run) -> str:
    return ",".join(map(str, run.gpus))


def stop(name: str, seconds: int) -> list[list[str]]:
    """Nothing: a run is its command's child."""
    return []


def held(image: Image) -> Image:
    """The image, whose .sqsh file must be the one that was exported."""
    return held_file(image, "sqsh")
