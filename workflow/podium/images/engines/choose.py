"""Which engine builds or runs an image where the config says `auto`: the order, and the reason."""

from __future__ import annotations

from pathlib import Path

from podium.errors import BadEnvironment, BadInput, PodiumError
from podium.images import engines
from podium.images.lock import Image

BUILDERS = ("docker", "podman")
FILES = {"apptainer": "sif", "enroot": "sqsh"}
# Docker and Podman hold what they built; a file needs an export first. Podman without a daemon comes second because
# rootless stores are slow on some machines; apptainer before enroot because it can cut a run off the network.
ORDER = ("docker", "podman", "apptainer", "enroot")


def builder(wanted: str, implementation: Path, taken: str | None = None) -> str:
    """The engine that builds: the wanted one; for `apptainer` and `enroot`, which run files, one that can export them.

    `auto` takes the first of docker and podman that answers, and `process` where none does or there is no Dockerfile.
    `taken` is an image that somebody else built, which takes no Dockerfile but an engine for containers.
    Raises BadInput without a Dockerfile where one is needed, BadEnvironment where no engine can build.
    """
    dockerfile = implementation / "Dockerfile"
    if wanted == "process" and not taken:
        return wanted
    if wanted == "process":
        raise BadInput(
            f"engine process runs no image: {taken}", "an engine for containers", wanted, "see config/README.md"
        )
    if not taken and not dockerfile.is_file():
        if wanted == "auto":
            return _told(wanted, "process", f"{implementation} has no Dockerfile")
        raise BadInput(
            f"{implementation} makes no image for engine {wanted}",
            str(dockerfile),
            "nothing there",
            "see containers/README.md",
        )
    if wanted in BUILDERS:
        return wanted  # asked only where something is to be built: `answering`
    why = {}
    for name in BUILDERS:
        found = engines.of(name).available()
        if found.ok:
            return _told(wanted, name, f"{found.why}, version {found.version}")
        why[name] = found.why
    reasons = "; ".join(f"{name}: {reason}" for name, reason in why.items())
    if wanted == "auto" and not taken:
        return _told(wanted, "process", reasons)
    raise BadEnvironment(
        f"no engine can build for engine {wanted}",
        " or ".join(BUILDERS),
        reasons,
        "podium doctor --engines; or build elsewhere, podium push there and podium pull here",
    )


def runner(wanted: str, image: Image) -> tuple[str, Image]:
    """The engine that runs an image, and the image as it holds it.

    `auto` takes the first engine that answers and holds the locked image. Raises BadInput where the wanted engine holds
    another image or none, BadEnvironment where it does not answer.
    """
    if (image.engine == "process") != (wanted == "process") and wanted != "auto":
        raise BadInput(
            f"the image was built for engine {image.engine}",
            f"an image for engine {wanted}",
            image.reference,
            "podium build",
        )
    if image.engine == "process":
        return "process", engines.of("process").held(image)
    if wanted != "auto":
        answering(wanted)
        return wanted, engines.of(wanted).held(image)
    why = []
    for name in ORDER:
        found = engines.of(name).available()
        try:
            if found.ok:
                held = engines.of(name).held(image)
                return _told(wanted, name, f"{found.why} and holds the image"), held
        except PodiumError as error:
            found = engines.Availability(False, f"{error.expected} expected, {error.found} found")
        why.append(f"{name}: {found.why}")
    raise BadEnvironment(
        "no engine can run the image", f"one of {', '.join(ORDER)} that holds it", "; ".join(why), "podium pull"
    )


def puller(wanted: str, image: Image) -> str:
    """The engine that an image is brought to: the wanted one, or the first that answers."""
    if image.engine == "process" or wanted != "auto":
        return "process" if image.engine == "process" else wanted
    for name in ORDER:
        found = engines.of(name).available()
        if found.ok:
            return _told(wanted, name, f"{found.why}, version {found.version}")
    raise BadEnvironment(
        "no engine can hold the image", f"one of {', '.join(ORDER)}", "none", "podium doctor --engines"
    )


def answering(name: str) -> None:
    """Raise BadEnvironment with the reason unless an engine can be used on this machine."""
    found = engines.of(name).available()
    if not found.ok:
        raise BadEnvironment(f"engine {name} cannot be used", f"{name} to answer", found.why, "podium doctor --engines")


def _told(wanted: str, name: str, reason: str) -> str:
    print(f"engine {wanted}: {name} ({reason})", flush=True)
    return name
