"""Engine `process`: the implementation in a virtual environment on the host.

Its image is a snapshot of the implementation's files beside a virtual environment that is shared by all implementations
with equal requirements. Nothing isolates it: it is the demo's engine, and the one for a machine without containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def environment(venv: Path) -> dict[str, str]:
    """What puts the virtual environment first, whatever the caller's shell had active."""
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONNOUSERSITE": "1"}


def command(implementation: Path, config: str, contract: Mapping[str, str], venv: Path) -> list[str]:
    """The command line of one run: the config is sourced first, so that it cannot change who the run says it is.

    `implementation` is the working directory, `contract` the environment of the run contract (design section 5).
    """
    values = [f"{name}={value}" for name, value in (contract | environment(venv)).items()]
    start = 'cd "$1"; set -a; . "configs/$2.env"; set +a; shift 2; exec env "$@" ./run_and_time.sh'
    home = ["HOME=/nonexistent", "LANG=C.UTF-8"]
    return [
        "env",
        "-i",
        *home,
        f"PATH={venv}/bin:/usr/bin:/bin",
        "bash",
        "-euc",
        start,
        "run",
        str(implementation),
        config,
        *values,
    ]
