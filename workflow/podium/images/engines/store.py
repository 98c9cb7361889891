"""What Docker and Podman have in common: the options of `run`, and images in a store, known by what is in them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

from podium import files
from podium.errors import BadInput
from podium.images.engines import request
from podium.images.engines.request import Run
from podium.images.lock import Image

LABEL = "podium.run"  # every container of ours carries it, with its name
RENDER_NODE = 128  # the first accelerator is /dev/dri/renderD128 (Linux, drivers/gpu/drm: render nodes)
SHARED_MEMORY = (
    "64g"  # the most that /dev/shm may hold: a limit, not a reservation; Docker's own 64 MB starve data loaders
)
KINDS = {"nvidia": "nvidia.com/gpu", "cdi": "nvidia.com/gpu", "gaudi": "habana.ai/gaudi"}  # names in CDI


def options(run: Run) -> list[str]:
    """The options of `docker run` and `podman run` that mean the same in both."""
    words = ["--rm", "--init", "--pull=never", "--no-healthcheck", "--entrypoint="]
    words += ["--interactive", "--tty"] if run.terminal else []
    words += [f"--name={run.name}", f"--label={LABEL}={run.name}"] if run.name else []
    words += [f"--workdir={run.folder}", f"--stop-timeout={run.stop_seconds}"]
    words += [f"--network={'host' if run.network else 'none'}"]
    words += ["--ipc=host"] if run.host_memory else [f"--shm-size={SHARED_MEMORY}"]
    words += ["--read-only", "--tmpfs=/tmp:rw,exec,mode=1777"] if run.read_only else []
    words += [f"--ulimit={name}={value}:{value}" for name, value in run.limits.items()]
    for mount in request.mounts(run):
        words.append(f"--mount=type=bind,source={mount.source},target={mount.target}" + ",readonly" * mount.read_only)
    return words


def devices(run: Run) -> list[str]:
    """Accelerators by CDI's names (github.com/cncf-tags/container-device-interface), or AMD's by their device files."""
    if run.devices == "rocm":
        cards = [f"--device=/dev/dri/renderD{RENDER_NODE + number}" for number in run.gpus]
        return ["--device=/dev/kfd", *cards, "--group-add=video", "--group-add=render"]
    return [f"--device={KINDS[run.devices]}={number}" for number in run.gpus]


def inspect(program: str, reference: str) -> dict[str, Any] | None:
    """What the store of `program` tells of an image; None where it has none of that name."""
    command = [program, "image", "inspect", reference]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(answer.stdout)[0] if answer.returncode == 0 else None


def content(facts: dict[str, Any]) -> str:
    """The name of what is in an image, the same in every store: its layers, and how it is run.

    The id is not the same: it is the hash of the config in one kind of store and of the manifest in another.
    """
    told = facts["Config"] or {}
    how = {name: told.get(name) or None for name in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User")}
    parts = {"layers": facts["RootFS"]["Layers"], "config": how, "architecture": facts["Architecture"]}
    return "oci:sha256:" + files.hash_json(parts)


def names(facts: dict[str, Any]) -> tuple[str, ...]:
    """The digests (`registry/name@sha256:…`) by which registries know an image, as far as the store remembers."""
    return tuple(facts.get("RepoDigests") or ())


def holds(program: str, image: Image) -> bool:
    """Whether the store of `program` holds the locked image."""
    try:
        held(program, image)
    except BadInput:
        return False
    return True


def need_space(program: str, needed: int, what: str) -> None:
    """Raise BadEnvironment unless the store has `needed` bytes free, where it is on this machine."""
    place = {"docker": "{{.DockerRootDir}}", "podman": "{{.Store.GraphRoot}}"}[program]
    folder = request.output(program, "info", "--format", place).strip()
    if folder and Path(folder).exists():
        files.need_space(Path(folder), needed, what)


def held(program: str, image: Image) -> Image:
    """The image with the id of this store; raises BadInput where none of its names leads to what was locked."""
    found = None
    for reference in filter(None, (image.id, image.digest, image.tag)):
        facts = inspect(program, reference)
        if facts is None:
            continue
        found = content(facts)
        if found == image.reference:
            return dataclasses.replace(image, id=facts["Id"])
    raise BadInput(
        f"{program} does not hold the locked image",
        image.reference,
        f"{image.tag} is {found}" if found else f"neither {image.id} nor {image.tag}",
        "podium pull where it was pushed, else podium build",
    )
