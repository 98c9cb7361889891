"""`python3 common/missing.py requirements.txt`: prints the pinned requirements that are not installed in any version.

An image is built on a base that may bring its own PyTorch, compiled for its accelerator, with all that fits it: what
the base brings stays. `-r` includes another file, as for pip.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path


def requirements(path: Path) -> Iterator[str]:
    """The lines of a requirements file and of those it includes, without comments."""
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("-r"):
            yield from requirements(path.parent / line[2:].strip())
        elif line:
            yield line


def installed(requirement: str) -> bool:
    try:
        importlib.metadata.version(requirement.partition("==")[0].strip())
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    print("\n".join(line for line in requirements(Path(sys.argv[1])) if not installed(line)))
