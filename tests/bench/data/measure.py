"""How `make bench-data` measures: steps of one group take turns, medians are compared, one line a step."""

from __future__ import annotations

import csv
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from podium.data.tasks import runner

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
SAMPLES, GOLDENS = SHARED / "sample_data", SHARED / "goldens"
MEMORY = Path("/dev/shm")  # where the disk shall not count


@dataclass(frozen=True)
class Cost:
    """Medians in seconds: of the processors, children too, and of the clock."""

    cpu: float
    wall: float


@dataclass
class Bench:
    """The lines that are printed, and whether any step is short of its bar."""

    repeats: int
    short: list[str] = field(default_factory=list)

    def step(self, name: str, value: float, bar: float, how: str, at_most: bool = False) -> None:
        """One step: `value` is at least the bar (or at most), and `how` says what was compared."""
        good = value <= bar if at_most else value >= bar
        print(f"bench data {name} value={value:.2f} bar={bar:.2f} {'ok' if good else 'short'}", flush=True)
        print(f"  {how}", flush=True)
        if not good:
            self.short.append(name)

    def skip(self, name: str, reason: str) -> None:
        print(f"bench data {name} skipped: {reason}", flush=True)

    def costs(self, work: Mapping[str, Callable[[], object]], to: Path | None = None) -> dict[str, Cost]:
        """What each costs, in turns, so that a busy moment of the machine meets all; `to` is empty before each."""
        found: dict[str, list[Cost]] = {name: [] for name in work}
        for _ in range(self.repeats):
            for name, do in work.items():
                if to:
                    shutil.rmtree(to, ignore_errors=True)
                    to.mkdir()
                os.sync()  # what one left to be written is not the next one's burden
                cpu, wall = _cpu(), time.monotonic()
                do()
                found[name].append(Cost(_cpu() - cpu, time.monotonic() - wall))
        return {name: _median(costs) for name, costs in found.items()}

    def scaling(self, name: str, prepare: Callable[[int, Path], object], to: Path, module: str = "") -> None:
        """Whether two workers are 1.8 times as fast as one, where the processors are the limit.

        Workers that are processes start once and then import `module`, which takes as long for this little as for a
        whole set: it is measured, told, and taken off.
        Beside it stands what the machine gives to two processes that have nothing in common, one worker each: two
        processors that a virtual machine shows may be the two threads of one core.
        """
        work = {
            "one": lambda: prepare(1, to / "0"),
            "two": lambda: prepare(2, to / "0"),
            "apart": lambda: _together([partial(prepare, 1, to / str(number)) for number in range(2)]),
        }
        if module:
            work["start"] = lambda: _start(module)
        costs = self.costs(work, to)
        one, two = costs["one"], costs["two"]
        start = costs["start"].wall if module else 0
        how = (
            f"{one.wall:.2f} s with 1 worker, {two.wall:.2f} s with 2, of which {start:.2f} s is their start; "
            f"CPU seconds {one.cpu:.2f} and {two.cpu:.2f}; "
            f"two processes with 1 worker each: {2 * one.wall / costs['apart'].wall:.2f} is what this machine gives; "
            f"load {os.getloadavg()[0]:.1f}"
        )
        self.step(f"{name}-2-workers", one.wall / (two.wall - start), 1.8, how)


def baseline(step: str) -> float:
    """CPU seconds of a reference program on its workload; its start-up is another row."""
    with (GOLDENS / "baselines.csv").open(encoding="utf-8", newline="") as file:
        return next(float(row["reference_cpu_s"]) for row in csv.DictReader(file) if row["step"] == step)


def missing(*paths: Path) -> str:
    """Why a step cannot be run here, or nothing."""
    absent = [str(path) for path in paths if not path.exists()]
    return f"no {', '.join(absent)}" if absent else ""


def _start(module: str) -> None:
    """Start two workers and end them."""
    with runner(2) as run:
        run([partial(_import, module)] * 2, "start")


def _import(module: str) -> None:
    import_module(module)


def _together(work: list[Callable[[], object]]) -> None:
    """Run each in a process of its own at the same time."""
    processes = [get_context("fork").Process(target=one) for one in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("one of the processes failed")


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(cost.cpu for cost in costs), statistics.median(cost.wall for cost in costs))


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
