"""`make bench-package`: packing and archiving against tar and gzip on the same data, and the board of many results.

`bench package <step> value=<figure> bar=<figure> ok|short`, a line a step; exit status 1 where any is short. The data
is made: 2,800 logs of 200 kB (280 results of ten runs) and 20,000 files of code, in some of which the scrub finds
something.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "workflow")]
import synthetic  # noqa: E402 - the tests' folder has to be found first
from podium import config as configuration  # noqa: E402
from podium import files, manifest, plan  # noqa: E402
from podium.package import inspect, layout  # noqa: E402
from podium.verdict import check  # noqa: E402

SYSTEMS, RUNS, LOG, CODE = 280, 10, 200_000, 20_000
BOARD = 300
REPEATS = 3
STEP = """
import sys
from pathlib import Path
from podium import config
from podium.package import archive, layout
{}(config.load(Path(sys.argv[1])))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def made(place: Path, systems: int, size: int, code: int, unfinished: int = 0) -> configuration.Config:
    """A work root as runs and checks leave it, written straight down: `systems` results of bert, ten runs each."""
    implementation = place / "code" / "bert"
    numbers = random.Random(1)
    # A few bodies for all: compressors look back 32 kB, so what lies further apart need not differ.
    bodies = ["".join(f"value_{line} = {numbers.random()}\n" for line in range(150)) for _ in range(50)]
    middles = [grown(size, numbers) for _ in range(20)]
    for index in range(code):
        text = f"# module {index}\n{bodies[index % len(bodies)]}"
        text += "HOME = '/home/somebody/bert'\n" if index % 1000 == 0 else ""
        path = implementation / f"part{index // 200}" / f"module{index}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (implementation / "configs").mkdir(parents=True)
    (implementation / "configs" / "x.env").write_text("")
    names = [f"system{index}" for index in range(systems)]
    value = {
        "root": str(place / "work"),
        "submission": {"org": "tests", "division": "open", "round": "3.1.0", "status": "research", "demo": True},
        "systems": {name: {"nodes": 1, "gpus_per_node": 0} for name in names},
        "results": [
            {"system": name, "benchmark": "bert", "implementation": str(implementation), "config": "x"}
            for name in names
        ],
        "data": {"sets": {"wikipedia": {"source": "demo", "layout": "hdf5"}}},
    }
    (place / "config.yaml").write_text(yaml.safe_dump(value))
    config = configuration.load(place / "config.yaml")
    data = plan.layout_folder(config, config.dataset("wikipedia"))
    data.mkdir(parents=True)
    (data / "train.hdf5").write_bytes(b"data")
    manifest.write(data, manifest.of_folder(data))
    plans = plan.plans(config)
    write_image(config, plans[0], implementation)
    for index, item in enumerate(plans):
        runs = RUNS - 5 if index < unfinished else RUNS
        write_result(config, item, runs, middles)
    write_verdicts(config, plans[unfinished:])
    return config


def write_image(config: configuration.Config, item: plan.Plan, implementation: Path) -> None:
    path = plan.image_file(config, item)
    shutil.copytree(implementation, path.parent / "implementation")
    held = {entry.path: entry.sha256 for entry in manifest.of_folder(implementation).files}
    facts = {"engine": "process", "reference": "process:sha256:0", "implementation": "", "venv": "", "python": "3.11"}
    facts |= {"commit": None, "dirty": False, "requirements": [], "packages": {"torch": "2.13.0"}, "files": held}
    path.write_text(json.dumps(facts))


def write_result(config: configuration.Config, item: plan.Plan, runs: int, middles: list[str]) -> None:
    """Ten logs, their records, the ledger's chain over them, the verdict, the description."""
    folder = plan.result_folder(config, item)
    lines: list[str] = []

    def enter(entry: dict) -> None:
        previous = hashlib.sha256(lines[-1].encode()).hexdigest() if lines else None
        lines.append(json.dumps({**entry, "time": "2026-05-01T00:00:00.000+00:00", "previous": previous}))

    previous = None
    for number in range(runs):
        home = folder / str(number)
        home.mkdir(parents=True)
        lines_of_log = synthetic.log(seed=number)
        log = "\n".join([*lines_of_log[:-3], middles[number % len(middles)], *lines_of_log[-3:]]).encode()
        (home / "result.txt").write_bytes(log)
        start, stop = (f"2026-05-01T{number:02}:{minute}:00.000+00:00" for minute in ("00", "50"))
        record = {
            "attempt": number,
            "nodes": ["vm"],
            "data": "x",
            "outcome": "converged",
            "seed": number,
            "minutes": 50.0,
        }
        record |= {"started": start, "stopped": stop, "previous": previous, "quality": 0.72}
        record |= {"log": {"bytes": len(log), "sha256": hashlib.sha256(log).hexdigest()}}
        text = json.dumps(record)
        (home / "run.json").write_text(text)
        previous = hashlib.sha256(text.encode()).hexdigest()
        enter(
            {
                "event": "launched",
                "attempt": number,
                "wanted": number,
                "seed": number,
                "fingerprint": "x",
                "planned": 10,
            }
        )
        enter({"event": "ended", "attempt": number, "outcome": "converged", "record": previous})
    (folder / "ledger.jsonl").write_text("".join(line + "\n" for line in lines))
    path = plan.system_file(config, item.system.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**synthetic.DESCRIPTION, "system_name": item.system.name, "division": "open"}))


def write_verdicts(config: configuration.Config, plans: Sequence[plan.Plan]) -> None:
    """A verdict on each result, as `podium check` writes it: asked for one, the same for all, and good."""
    verdict = check.check_result(config, plans[0]) | {"verdict": "compliant", "findings": []}
    for item in plans:
        path = plan.verdict_file(config, item)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**verdict, "system": item.system.name}))


def grown(size: int, numbers: random.Random) -> str:
    """The middle of a log: two thirds MLLOG records and one third what a framework prints, as published ones are."""
    middle: list[str] = []
    length = 0
    while length < size:
        step, loss = len(middle), numbers.random()
        middle.append(
            synthetic.record("tracked_stats", {"loss": loss, "throughput": 2500 + loss}, 3_000 + step, step=step)
        )
        middle.append(f"0: step {step} loss {loss:.6f} images/s {2500 + loss:.1f} lr 0.0012 gpu mem 71.2 GiB")
        length += len(middle[-1]) + len(middle[-2]) + 2
    return "\n".join(middle)


def measured(code: str, config: Path) -> tuple[float, float]:
    """Wall seconds and the most memory in MB of a process, from its start."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, config], stdout=subprocess.PIPE, text=True, check=True)
    return time.monotonic() - started, int(done.stdout.split()[-1]) / 1024


def median(action: Callable[[], float]) -> float:
    return statistics.median(action() for _ in range(REPEATS))


def inspected(config: configuration.Config) -> None:
    """An answer of every checker on this tree: what they cost is measured by bench-verdicts."""
    tree = files.read_json(layout.manifest_file(config))["sha256"]
    answer = {"tree": tree, "stopped_by": [], "verdict": "compliant", "checker": "none asked", "messages": []}
    files.write_json(inspect.inspection_file(config), {**answer, "round": "3.1.0"})


def main() -> int:
    print(f"bench machine: {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    steps: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as name:
        place = Path(name)
        config = made(place, SYSTEMS, LOG, CODE)
        tree = plan.tree_folder(config)
        pack, memory_pack = measured(STEP.format("layout.pack"), config.path)
        inspected(config)
        whole, memory_archive = [], 0.0
        theirs, ours = [], []
        for _ in range(REPEATS):
            started = time.monotonic()
            command = f"tar cf - -C {tree.parent} {tree.name} | gzip -1 > {place}/theirs.tar.gz"
            subprocess.run(["bash", "-euo", "pipefail", "-c", command], check=True)
            theirs.append(time.monotonic() - started)
            seconds, memory_archive = measured(STEP.format("archive.archive"), config.path)
            ours.append(seconds)
            pack, memory_pack = measured(STEP.format("layout.pack"), config.path)
            whole.append(pack + seconds)
        base = statistics.median(theirs)
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) / 1e6
        figures = f"tar | gzip -1 {base:.1f} s, archive {statistics.median(ours):.1f} s, pack {pack:.1f} s"
        print(f"bench note: {size:.0f} MB, {figures}")
        steps.append(("archive_to_tar_gzip", statistics.median(ours) / base, 2.0))
        steps.append(("pack_and_archive_to_tar_gzip", statistics.median(whole) / base, 2.0))
        steps.append(("memory_mb", max(memory_pack, memory_archive), 300))
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as name:
        config = made(Path(name), BOARD, 20_000, 10, unfinished=30)
        words = [sys.executable, "-m", "podium", "status", "--config", config.path]

        def status() -> float:
            started = time.monotonic()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            return time.monotonic() - started

        status()  # what is known of a log is kept from the first look on
        steps.append(("status_of_300_results_s", median(status), 2.0))
    for step, value, bar in steps:
        print(f"bench package {step} value={value:.3g} bar={bar:g} {'ok' if value <= bar else 'short'}")
    return int(any(value > bar for _, value, bar in steps))


if __name__ == "__main__":
    sys.exit(main())
