"""`make bench-verdicts`: `podium check` against the unmodified package checker, and what large logs cost.

`bench verdicts <step> value=<figure> bar=<figure> ok|short`, a line a step; exit status 1 where any is short. Both
tools run in fresh processes on the largest published tree beside the checkout; without one a synthetic one stands in.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
import synthetic  # noqa: E402 - the tests' folder has to be found first
from support import SHARED  # noqa: E402

FIXTURES = SHARED / "data" / "published" / "fixtures" / "v3.0"
ROUND = "3.0.0"
DIGEST = """
import resource, sys, time
from pathlib import Path
from podium.verdict.reading import digest
started = time.process_time()
assert digest.of_log(Path(sys.argv[1]), "3.0.0").compliant
print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def cpu(command: list[str], folder: Path, before: Callable[[], None], repeats: int = 3) -> tuple[float, float]:
    """Median CPU seconds (user and system, children too) and median wall seconds of a command."""
    figures = []
    for _ in range(repeats):
        before()
        start, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures.append((end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime, time.monotonic() - started))
    return statistics.median(item[0] for item in figures), statistics.median(item[1] for item in figures)


def largest() -> Path | None:
    """The published submitter of round 3.0 with the most logs."""
    trees = [path for path in FIXTURES.glob("*") if (path / "results").is_dir()]
    return max(trees, key=lambda path: len(list(path.rglob("result_*.txt"))), default=None)


def grown(path: Path, megabytes: int) -> None:
    """A log that complies, made long by its middle: chatter, and evaluations that count."""
    lines = synthetic.log()
    middle = "\n".join([*["step 100 loss 6.5 images/s 2511.7" * 3] * 4, *lines[-3:-2] * 2]) + "\n"
    with path.open("w", encoding="latin-1") as file:
        file.write("\n".join(lines[:-2]) + "\n")
        for _ in range(megabytes * 1_000_000 // len(middle)):
            file.write(middle)
        file.write("\n".join(lines[-2:]) + "\n")


def main() -> int:
    print(f"bench machine: {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    # Compiled modules are part of an installation: they must not be made anew for every process.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as place:
        here = Path(place)
        os.environ["XDG_CACHE_HOME"] = str(here / "cache")
        tree = here / "tree"
        found = largest()
        if found is None:
            print("bench note: no published results beside the checkout, a synthetic tree stands in")
            found = synthetic.tree(here / "made")
        shutil.copytree(found, tree, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(tree):
            Path(folder).chmod(0o755)
        podium = [sys.executable, "-m", "podium", "check"]
        ours = [*podium, str(tree), "--round", ROUND]
        theirs = [sys.executable, "-m", "mlperf_logging.package_checker", tree.name, "training", ROUND]
        subprocess.run(ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # compiles the modules
        # By turns, so that a machine that others use is as busy for the one as for the other.
        forget = partial(shutil.rmtree, here / "cache", ignore_errors=True)
        turns = [(cpu(theirs, here, lambda: None, 1)[0], cpu(ours, here, forget, 1)[0]) for _ in range(5)]
        official, cold = (statistics.median(times) for times in zip(*turns, strict=True))
        warm, warm_wall = cpu(ours, here, lambda: None)
        _, help_wall = cpu([*podium, "--help"], here, lambda: None, repeats=5)
        logs = len(list(tree.rglob("result_*.txt")))
        print(f"bench note: {logs} logs, official {official:.2f} CPU s, cold {cold:.2f}, warm {warm:.2f}")
        costs = []
        for megabytes in (1, 10, 100):
            grown(here / "log.txt", megabytes)
            done = subprocess.run(
                [sys.executable, "-c", DIGEST, here / "log.txt"], capture_output=True, text=True, check=True
            )
            seconds, memory = map(float, done.stdout.split())
            costs.append(seconds / megabytes)
            print(f"bench note: a log of {megabytes} MB takes {seconds:.2f} CPU s and {memory:.0f} MB of memory")
    steps = [
        ("cold-times-faster", statistics.median(slow / quick for slow, quick in turns), 12.0, "at least"),
        ("warm-seconds", warm_wall, 2.0, "at most"),
        ("cost-of-a-MB-at-100-to-1", costs[-1] / costs[0], 1.5, "at most"),
        ("memory-MB-at-100-MB", memory, 200.0, "at most"),
        ("help-seconds", help_wall, 0.3, "at most"),
    ]
    short = False
    for name, value, bar, way in steps:
        good = value >= bar if way == "at least" else value <= bar
        short = short or not good
        print(f"bench verdicts {name} value={value:.2f} bar={bar:.2f} {'ok' if good else 'short'}")
    return short


if __name__ == "__main__":
    sys.exit(main())
