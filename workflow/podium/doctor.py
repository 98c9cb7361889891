"""`podium doctor`: what this machine has and lacks, and what each lack costs; quick, and nothing is changed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from podium.errors import ENVIRONMENT


@dataclass(frozen=True)
class Finding:
    """One thing looked at. A `needed` thing that is absent stops the demo; any other narrows what can be done."""

    name: str
    present: bool
    found: str
    cost: str
    needed: bool = False


TOOLS = (  # program, whether the demo needs it, what its lack costs
    ("bash", True, "runs cannot be started"),
    ("git", False, "images are locked without a commit"),
    ("lscpu", False, "processor fields of the system description stay open"),
    ("lsblk", False, "storage fields of the system description stay open"),
    ("docker", False, "no engine docker"),
    ("podman", False, "no engine podman"),
    ("apptainer", False, "no engine apptainer"),
    ("enroot", False, "no engine enroot"),
    ("sbatch", False, "no launcher slurm"),
    ("nvidia-smi", False, "no accelerator of NVIDIA is seen: only scaled-down runs make sense here"),
    ("rocm-smi", False, "no accelerator of AMD is seen"),
)


def look(folder: Path) -> list[Finding]:
    """Look at Python, cores, memory, disk and permission at `folder`, and at the programs on the PATH."""
    found = [_python(), _venv(), _cores(), _memory(), _disk(folder), _writable(folder)]
    for name, needed, cost in TOOLS:
        where = shutil.which(name)
        found.append(Finding(name, where is not None, where or "not on the PATH", cost, needed))
    return found


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python >= 3.11", sys.version_info >= (3, 11), version, "nothing runs", needed=True)


def _venv() -> Finding:
    from importlib.util import find_spec

    present = find_spec("venv") is not None and find_spec("ensurepip") is not None
    cost = "engine process cannot make environments (Debian: python3-venv)"
    return Finding("python3-venv", present, "present" if present else "absent", cost, needed=True)


def _cores() -> Finding:
    number = len(os.sched_getaffinity(0))
    return Finding("2 cores", number >= 2, str(number), "the demo takes twice as long")


def _memory() -> Finding:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding("4 GiB memory", size >= 3.5, f"{size:.1f} GiB", "runs side by side may be killed")


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 1e9
    return Finding("5 GB free disk", free >= 5, f"{free:.1f} GB at {folder}", "the demo does not fit", needed=True)


def _writable(folder: Path) -> Finding:
    writable = os.access(folder, os.W_OK)
    cost = "nothing can be made here; set `root` in the config to a folder of yours"
    return Finding("permission to write", writable, str(folder), cost, needed=True)


def table(found: Sequence[Finding]) -> str:
    """One line a thing; a lack says what it costs."""
    lines = []
    for item in found:
        mark = "ok  " if item.present else "LACK" if item.needed else "-   "
        lines.append(f"{mark} {item.name:20} {item.found}" + ("" if item.present else f": {item.cost}"))
    return "\n".join(lines)


def _engines() -> list[Finding]:
    """The self-test of every engine: it runs a small image, which takes seconds, and leaves nothing."""
    from podium.images import engines, probe

    found = []
    for name in engines.NAMES:
        seen = probe.probe(name)
        told = f"{seen.version} {seen.told}, {seen.seconds:.1f} s" if seen.ok else f"{seen.version} {seen.told}"
        found.append(Finding(f"engine {name}", seen.ok, told.strip(), f"no engine {name}"))
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engines", action="store_true", help="let every engine run a small image, for a few seconds")


def main(args: argparse.Namespace) -> int:
    """`podium doctor [--engines]`: status 3 where something is lacking that the demo needs."""
    found = _engines() if args.engines else look(Path.cwd())
    print(json.dumps([asdict(item) for item in found], indent=1) if args.json else table(found))
    return ENVIRONMENT if any(item.needed and not item.present for item in found) else 0
