"""`make bench-train`: how fast the implementations feed and train a device; one line a step.

`bench train <step> value=<rate> bar=<rate> ok|short`; exit status 1 where any is short. Rates of the CPU are per second
of one core's own time, so that other load does no harm. Needs the implementations' requirements.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
import devices
from feeds import FEEDS

from implementations.implementation import CONTAINERS, modules


def main() -> int:
    torch.set_num_threads(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=CONTAINERS, capture_output=True, text=True)
    machine = platform.processor() or platform.machine()
    print(f"bench machine: {machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {commit.stdout.strip()}")
    short = False
    for benchmark, feed in FEEDS.items():
        with modules(CONTAINERS / benchmark) as loaded, tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
            rows = [*feed(loaded)]
            if torch.cuda.is_available():
                rows.append(devices.row(benchmark, loaded, Path(place)))
            for name, value, bar in rows:
                print(f"bench train {name} value={value:.1f} bar={bar:.1f} {'ok' if value >= bar else 'short'}")
                short |= value < bar
    if not torch.cuda.is_available():
        print("bench train: no GPU here, so the rates, the memory and the busy share of training on one are open")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
