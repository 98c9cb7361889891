"""One status call for all: many processes wait for jobs, one of them asks for the others too.

The answer lies in `<root>/runs/.states-<launcher>.json`, with the time at which it was got; who finds it old asks anew,
for every job whose attempt has no record yet.
"""

from __future__ import annotations

import fcntl
import json
import time
from dataclasses import asdict
from pathlib import Path

from podium import files
from podium.runs.launchers import JOB, UNKNOWN, Launcher, State


def state(launcher: Launcher, name: str, runs: Path, id: str) -> State:
    """The state of a job, at most one interval old; UNKNOWN while nobody answers.

    `name` is the launcher's, `runs` the folder of all runs of the work root.
    """
    if not launcher.interval:
        return launcher.states([id])[id]
    path = runs / f".states-{name}.json"
    known = _read(path)
    if known is None or id not in known["states"] or _old(known, launcher.interval):
        with path.with_suffix(".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return _of(known, id)  # another one is asking: its answer is there at the next look
            known = _read(path)  # which may be another's answer of a moment ago
            if known is None or _old(known, launcher.interval):
                states = launcher.states(sorted({*_waiting(runs, name), id}))
                known = {"time": time.time(), "states": {key: asdict(value) for key, value in states.items()}}
                files.write_text(path, json.dumps(known))
    return _of(known, id)


def _read(path: Path) -> dict | None:
    return files.read_json(path) if path.exists() else None


def _old(known: dict, interval: float) -> bool:
    """Whether the answer is older than the interval; one from the future (a clock that was set back) is."""
    return not 0 <= time.time() - known["time"] < interval


def _of(known: dict | None, id: str) -> State:
    found = known["states"].get(id) if known else None
    return State(**found) if found else State(UNKNOWN, told="not asked for yet")


def _waiting(runs: Path, name: str) -> list[str]:
    """The ids of all jobs of a launcher whose attempts have no record."""
    found = []
    for path in runs.glob(f"*/*/*/{JOB}"):
        if not (path.parent / "run.json").exists():
            job = files.read_json(path)
            if job["launcher"] == name and job["id"]:
                found.append(job["id"])
    return found
