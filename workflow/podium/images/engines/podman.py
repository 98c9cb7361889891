"""Engine `podman`: an image in the caller's own store, as root or rootless. Its containers outlive their client."""

from __future__ import annotations

from pathlib import Path

from podium.images.engines import request, store
from podium.images.engines.request import Availability, Run
from podium.images.lock import Image


def available() -> Availability:
    """Whether podman can work for this user, with its version."""
    return request.ask("podman", "info", "--format", "{{.Version.Version}}")


def command(run: Run) -> list[str]:
    """`podman run`: removed when it ends, pulled never; rootless, the caller is the same user inside as outside."""
    user = run.user or request.caller()
    rootless = ["--userns=keep-id"] if request.caller()[0] != 0 else []
    words = ["podman", "run", *store.options(run), *rootless, f"--user={user[0]}:{user[1]}"]
    words += [f"--device={node}" for node in run.nodes]
    words += store.devices(run) if run.gpus else []
    return [*words, run.image.id, *request.start(run)]


def stop(name: str, seconds: int) -> list[list[str]]:
    """Stopped within `seconds`, removed with its anonymous volumes, if it is there at all."""
    return [["podman", "stop", f"--time={seconds}", name], ["podman", "rm", "--force", "--volumes", name]]


def held(image: Image) -> Image:
    """The image with the id by which this user's store calls it."""
    return store.held("podman", image)


def mounted(container: str, folder: Path) -> list[str]:
    """Words before a command that let it, and nobody else, see a container's files in `folder`, an empty one."""
    rootless = ["podman", "unshare"] if request.caller()[0] != 0 else []
    script = 'mount --rbind "$(podman mount "$0")" "$1" && shift && exec "$@"'
    return [*rootless, "unshare", "--mount", "sh", "-c", script, container, str(folder)]
