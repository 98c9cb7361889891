"""`make bench-demo`: the demo from a fresh clone, and the waits that a person feels; one line a step.

`bench demo <step> value=<seconds> bar=<seconds> ok|short`; exit status 1 where any is short. Small steps are medians.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def seconds(command: list[str], folder: Path, repeats: int = 1) -> float:
    """Median wall time of a command that must succeed, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.monotonic()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - started)
    return statistics.median(times)


def main() -> int:
    machine = platform.processor() or platform.machine()
    print(f"bench machine: {machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        clone = Path(place) / "podium"
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        podium, snakemake = str(clone / ".venv/bin/podium"), str(clone / ".venv/bin/snakemake")
        steps = [
            ("fresh-clone", seconds(["make", "demo"], clone), 600.0),
            ("again", seconds(["make", "demo"], clone), 10.0),
            ("dry-run", seconds([snakemake, "--profile", "profiles/local", "--dry-run"], clone, 5), 3.0),
            ("help", seconds([podium, "--help"], clone, 5), 0.3),
            ("doctor", seconds([podium, "doctor"], clone, 5), 2.0),
        ]
    for name, value, bar in steps:
        print(f"bench demo {name} value={value:.2f} bar={bar:.1f} {'ok' if value <= bar else 'short'}")
    return any(value > bar for _, value, bar in steps)


if __name__ == "__main__":
    sys.exit(main())
