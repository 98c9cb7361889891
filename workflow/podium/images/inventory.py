"""What is in an image: packages of every kind, versions that results depend on, licences; asked of the image itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadEnvironment, BadInput
from podium.images import engines
from podium.images.lock import Image

# An image needs bash to run at all, and Python to say what is in it.
_ASK = 'command -v python3 >/dev/null || { echo "no python3 on the PATH" >&2; exit 42; }; exec python3 -c "$1"'


@dataclass(frozen=True)
class Inventory:
    """Name to version of Python's, the system's (`deb` or `rpm`) and conda's packages, and the versions of CUDA,
    cuDNN, NCCL, ROCm and the framework that were found; licences as Python's packages state them."""

    python: str
    packages: Mapping[str, str]
    system_kind: str
    distribution: str
    system_packages: Mapping[str, str]
    conda_packages: Mapping[str, str]
    versions: Mapping[str, str]
    licences: Mapping[str, str]


def take(engine: str, image: Image) -> Inventory:
    """The inventory of an image that an engine holds; raises BadInput where it has no bash or no Python."""
    inside = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
    words = ("bash", "-c", _ASK, "inventory", inside)
    run = engines.Run(image=image, config=None, environment={}, words=words, network=engine == "process", workdir="/")
    answer = subprocess.run(engines.of(engine).command(run), capture_output=True, text=True, check=False)
    if answer.returncode == 125:  # of Docker and Podman: the engine failed, not what it was to run
        raise BadEnvironment(
            f"engine {engine} starts no container",
            "a container that runs",
            answer.stderr.strip()[-500:],
            "podium doctor --engines",
        )
    if answer.returncode != 0:
        told = (answer.stderr or answer.stdout).strip().splitlines()[-3:]
        raise BadInput(
            f"the image {image.tag or image.reference} does not say what is in it",
            "an image with bash and python3",
            "; ".join(told) or f"status {answer.returncode}",
            "install both in the Dockerfile: the run contract needs bash, the lock needs python3",
        )
    facts = json.loads(answer.stdout)
    return Inventory(
        python=facts["python"],
        packages=dict(sorted(facts["packages"].items())),
        system_kind=facts["system"]["kind"],
        distribution=facts["system"]["distribution"],
        system_packages=facts["system"]["packages"] if engine != "process" else {},  # else they are the machine's own
        conda_packages=facts["conda"],
        versions=facts["versions"],
        licences=facts["licences"],
    )


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One line for every package that came, went or changed: `torch 2.13.0 -> 2.14.0`."""
    lines = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name, "absent"), now.get(name, "absent")
        if old != new:
            lines.append(f"{name} {old} -> {new}")
    return lines
