"""Registries: what an image is called in one, and what a failed transfer means. Logins are the engine's own."""

from __future__ import annotations

import ipaddress

from podium.config import Config
from podium.errors import BadEnvironment, BadInput, PodiumError
from podium.images.lock import Image
from podium.images.watch import Said, cause, watch
from podium.plan import Plan


def name(config: Config, wanted: Plan, image: Image) -> str:
    """The name under which an image is pushed: its tag is its content, so that no push moves another's.

    Raises BadInput where the config names no registry.
    """
    if config.images.registry is None:
        raise BadInput(
            "no registry to push to",
            "images.registry: HOST/PATH",
            "nothing",
            f"edit {config.path}; see config/README.md",
        )
    return f"{config.images.registry}/{wanted.benchmark}-{wanted.implementation}:{image.reference[-64:][:16]}".lower()


def on_loopback(reference: str) -> bool:
    """Whether a registry is on this machine itself: such a one may speak plain HTTP, as Docker has it."""
    host = reference.partition("/")[0].rpartition(":")[0] or reference.partition("/")[0]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def failure(what: str, said: Said, again: str) -> PodiumError:
    """A transfer that failed, as an error with its likely cause and the last lines."""
    found = cause("\n".join(said.last(8)), again)
    kind = BadEnvironment if found.machine else BadInput
    return kind(
        f"{what} failed: status {said.status}",
        "a transfer to its end",
        f"{found.meaning}; it said:\n    " + "\n    ".join(said.last(8)),
        found.advice if found.advice == again else f"{found.advice}; then {again}",
    )


def fetch(engine: str, source: str, again: str, from_file: bool = False) -> None:
    """Let the store of `engine` take an image from a registry, or from a file; raises with the likely cause."""
    plain = ["--tls-verify=false"] if engine == "podman" and on_loopback(source) else []
    words = ["load", f"--input={source}"] if from_file else ["pull", *plain, source]
    said = watch([engine, *words], f"pull {source}", ".*(Pull complete|Copying blob|Loaded image)")
    if said.status != 0:
        raise failure(f"pull of {source}", said, again)
