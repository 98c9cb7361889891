"""What runs on a system: the frameworks and libraries of its images, drivers, the scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The packages that a reader of a result asks for, by the name they have in a Python environment.
FRAMEWORKS = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "paddlepaddle": "PaddlePaddle",
    "mxnet": "MXNet",
}
LIBRARIES = {
    "cuda": re.compile(r"^nvidia-cuda-runtime"),
    "cudnn": re.compile(r"^nvidia-cudnn"),
    "nccl": re.compile(r"^nvidia-nccl"),
    "cublas": re.compile(r"^nvidia-cublas"),
    "transformer_engine": re.compile(r"^transformer[-_]engine"),
    "apex": re.compile(r"^apex$"),
    "dali": re.compile(r"^nvidia-dali"),
}


def framework(packages: Iterable[Mapping[str, str]]) -> str:
    """The frameworks in the packages (name to version) of several images: "PyTorch 2.13.0"."""
    named = {f"{FRAMEWORKS[name]} {image[name]}" for image in packages for name in FRAMEWORKS if name in image}
    return ", ".join(sorted(named))


def libraries(packages: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The versions of the libraries under the frameworks, several where images differ."""
    found: dict[str, set[str]] = {}
    for image in packages:
        for package, version in image.items():
            for name, pattern in LIBRARIES.items():
                if pattern.match(package):
                    found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def scheduler(text: str) -> dict[str, str]:
    """`sinfo --version`: "slurm 22.05.8", or "slurm-wlm 22.05.8" of Debian."""
    found = re.match(r"slurm(?:-wlm)? (\S+)", text)
    return {"slurm": found[1]} if found else {}
