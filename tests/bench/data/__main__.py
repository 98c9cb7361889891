"""`make bench-data`: preparation and fetching as ratios to the reference programs and to the machine's own limits.

One line a step, `bench data <step> value=<ratio> bar=<ratio> ok|short`, and one that says what was compared; exit
status 1 where any is short. Peers that cannot be run here stand in ../shared/data/goldens/baselines.csv with the CPU
seconds that they took on two AMD EPYC cores; limits (md5sum, copy, decoding, curl) are measured in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import c4
import fetch
import imagenet
import kits19
import librispeech
import wikipedia
from measure import Bench

STEPS = {
    "librispeech": librispeech,
    "imagenet": imagenet,
    "kits19": kits19,
    "bert": wikipedia,
    "c4": c4,
    "fetch": fetch,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="which (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the median counts")
    args = parser.parse_args()
    machine = platform.processor() or platform.machine()
    print(f"bench machine: {machine}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {args.repeats} repeats")
    bench = Bench(args.repeats)
    for name in args.steps or STEPS:
        with tempfile.TemporaryDirectory(prefix=f"podium-bench-{name}-") as place:
            STEPS[name].run(bench, Path(place))
    print(f"bench load at the end {os.getloadavg()[0]:.1f}; short: {', '.join(bench.short) or 'none'}")
    return bool(bench.short)


if __name__ == "__main__":
    sys.exit(main())
