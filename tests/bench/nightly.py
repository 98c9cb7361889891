"""`make bench-nightly`: what the detection finds and does not find in simulated histories, and how fast it all is.

`bench nightly <step> value=<figure> bar=<figure> ok|short`, a line a step; exit status 1 where any is short. Lines with
`bar=-` have no bar: they tell what fewer runs or worse noise cost. Seconds are of one core, so that other work on the
machine does not count. Names of parts (changes, quiet, slow_node, marks, speed) run these alone.

Histories are those of tests/nights.py; unless said otherwise a night has five runs that scatter by 1 %, on sixteen
nodes that differ by 0.3 %, and 50 series are watched.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
from nights import History, Noise, index_of, records, simulate  # noqa: E402 - the tests' folder has to be found first
from podium.nightly import detect, history, index, judge, nodes, page  # noqa: E402

SERIES, BEFORE, NODES = 50, 120, 16  # series watched together, nights before anything happens
QUIET = 200  # nights
QUIET_KINDS = {  # what a quiet cluster may look like; the bar holds for all of them together
    "normal": Noise(),
    "heavy-tails": Noise(tails=5),
    "shared": Noise(night=0.005),
    "holes": Noise(missing=0.1, lost=0.1),
    "wild-runs": Noise(wild=0.02),
}
HARD_KINDS = {  # beyond the bar: nights that take after each other, and wild nights
    "correlated": Noise(night=0.008, phi=0.4),
    "wild-nights": Noise(wild=0.02, wild_nights=0.01),
}
short: list[str] = []


def report(
    step: str, value: float, bar: float | None = None, good: Callable[[float, float], bool] = float.__le__
) -> None:
    """One line; `good(value, bar)` says whether the bar is met."""
    met = bar is None or good(float(value), float(bar))
    shown = "-" if bar is None else f"{bar:g}"
    print(f"bench nightly {step} value={value:.4g} bar={shown} {'ok' if met else 'short'}", flush=True)
    if not met:
        short.append(step)


def course(found: History, marks: tuple[int, ...] = ()) -> detect.Course:
    """A history followed as `podium nightly` follows one of fifty."""
    value = np.log(found.value)
    compared = nodes.compare(found.night, found.node, value)
    return detect.follow(found.night, value - nodes.effects(compared), marks, SERIES)


def delays(trials: int, **planted: object) -> np.ndarray:
    """Nights from a planted change to its alarm (1: the first night), infinite where none came in 60."""
    found = []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        levels = course(simulate(rng, BEFORE + 60, **planted)).levels
        found.append(next((level.found - BEFORE + 1 for level in levels[1:] if level.found >= BEFORE), np.inf))
    return np.array(found)


def changes() -> None:
    shift, drift = (BEFORE, 0.02), (BEFORE, 0.005)
    for step, planted in (("shift-up", {"shift": shift}), ("shift-down", {"shift": (BEFORE, -0.02)})):
        report(f"{step}-2%-within-3-nights", (delays(400, **planted) <= 3).mean(), 0.9, float.__ge__)
    shared = Noise(run=0.008, night=0.003)
    report("shift-2%-part-of-the-noise-shared", (delays(200, shift=shift, noise=shared) <= 3).mean())
    for runs in (1, 3, 4, 8):
        found = delays(200, shift=shift, runs=runs)
        report(f"shift-2%-{runs}-runs-within-3-nights", (found <= 3).mean())
        report(f"shift-2%-{runs}-runs-nights-to-find-90%", np.quantile(found, 0.9))
    found = delays(200, drift=drift)
    report("drift-0.5%-a-week-within-4-weeks", (found <= 28).mean(), 0.9, float.__ge__)
    report("drift-0.5%-a-week-nights-median", np.median(found))


def quiet() -> None:
    total = nights = 0
    for kinds, barred in ((QUIET_KINDS, True), (HARD_KINDS, False)):
        for name, noise in kinds.items():
            alarms = 0
            for seed in range(SERIES * 8):
                found = course(simulate(np.random.default_rng(10_000 + seed), QUIET + detect.LEAST, noise=noise))
                alarms += len(found.levels) - 1
            report(f"false-alarms-{name}-200-nights-50-series", alarms / 8)
            total, nights = (total + alarms, nights + 8) if barred else (total, nights)
    report("false-alarms-200-nights-50-series", total / nights, 1, float.__lt__)


def slow_node() -> None:
    named, others, alarms, first = 0, 0, 0, []
    trials = 60
    for seed in range(trials):
        rng = np.random.default_rng(20_000 + seed)
        found = [simulate(rng, BEFORE + 40, slow=(7, BEFORE, 0.03)) for _ in range(4)]  # four benchmarks of a system
        alarms += sum(len(course(one).levels) - 1 for one in found)
        for night in range(BEFORE, BEFORE + 40):
            parts = [(one.night <= night, one) for one in found]
            runs = [nodes.compare(one.night[part], one.node[part], np.log(one.value[part])) for part, one in parts]
            slow = [item.node for item in nodes.slow(runs, NODES, np.log1p(0.01))]
            others += any(node != 7 for node in slow)
            if 7 in slow:
                named += 1
                first.append(night - BEFORE + 1)
                break
    report("slow-node-of-16-named", named / trials, 0.99, float.__ge__)
    report("slow-node-nights-to-name-it-median", float(np.median(first)))
    report("slow-node-others-named", others / trials, 0.01)
    report("slow-node-false-alarms-of-series", alarms / trials, 0.05)


def marks() -> None:
    """Maintenance that makes everything 3 % slower: no alarm with a mark, and what comes after it is found."""
    alarms, found = 0, []
    for seed in range(200):
        rng = np.random.default_rng(30_000 + seed)
        one = simulate(rng, BEFORE + 60, shift=(BEFORE, 0.03))
        later = replace(one, value=one.value * np.where(one.night >= BEFORE + 40, 1.02, 1))
        levels = [level for level in course(later, (BEFORE,)).levels if not level.marked]
        alarms += any(level.found < BEFORE + 40 for level in levels)
        found.append(next((level.found - BEFORE - 39 for level in levels if level.found >= BEFORE + 40), np.inf))
    report("marked-change-alarms", alarms / 200, 0.01)
    report("shift-2%-after-a-mark-within-3-nights", (np.array(found) <= 3).mean(), 0.85, float.__ge__)


def speed() -> None:
    rng = np.random.default_rng(1)
    base = [simulate(rng, 10_000, noise=Noise(missing=0.02)) for _ in range(5)]
    steps = np.cumsum(np.where(np.arange(10_000) % 400 == 200, rng.choice([-0.02, 0.02], 10_000), 0))
    found = [
        replace(base[number % 5], value=base[number % 5].value * np.exp(steps[base[number % 5].night]))
        for number in range(SERIES)
    ]
    detect.threshold(SERIES)  # imports scipy, as a night has done long before
    started = time.process_time()
    count = sum(len(course(one).levels) for one in found)
    report("detect-10000-nights-50-series-cpu-seconds", time.process_time() - started, 10)
    report("detect-10000-nights-50-series-levels", count)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with mock.patch("os.fsync"):  # the disk's time for 100,000 nights' worth of runs is not what is measured
            for record in records(2000, 50):
                history.write(root, record, {})
        started, wall = time.process_time(), time.perf_counter()
        runs = len(index.refresh(root, anew=True).runs)
        report("index-rebuild-100000-runs-cpu-seconds", time.process_time() - started, 60)
        report("index-rebuild-100000-runs-wall-seconds", time.perf_counter() - wall)
        assert runs == 100_000
        started = time.process_time()
        index.refresh(root)
        report("index-nothing-new-100000-runs-cpu-seconds", time.process_time() - started)
    judgement = judge.judge(index_of(rng, 400, SERIES), [])
    text = page.page(judgement, Path("/nowhere"), Path("/nowhere"))
    report("page-50-series-400-nights-megabytes", len(text.encode()) / 1e6, 3)


def main(names: list[str]) -> int:
    for part in (changes, quiet, slow_node, marks, speed):
        if not names or part.__name__ in names:
            part()
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
