"""All runs of a config at a glance: what each is doing, for a terminal, for machines, for Prometheus."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from podium import files, plan
from podium.config import Config
from podium.plan import Plan
from podium.runs import launchers, ledger
from podium.runs.follow import Follower
from podium.runs.launchers import JOB
from podium.runs.ledger import Attempt

REFRESH = 2  # seconds
COLUMNS = (
    "system",
    "benchmark",
    "run",
    "attempt",
    "state",
    "job",
    "nodes",
    "minutes",
    "eta",
    "quality",
    "loss",
    "note",
)


class Table:
    """The rows of a config; between two looks it remembers how far each log was read."""

    def __init__(self, config: Config, system: str | None = None, benchmark: str | None = None) -> None:
        self.config = config
        self.plans = [
            item
            for item in plan.plans(config)
            if system in (None, item.system.name) and benchmark in (None, item.benchmark)
        ]
        self.logs: dict[Path, Follower] = {}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each attempt of the newest kind, and one for each run that has none yet; asks no scheduler."""
        return [row for item in self.plans for row in self._result(item)]

    def _result(self, wanted: Plan) -> list[dict[str, Any]]:
        folder = plan.result_folder(self.config, wanted)
        attempts = ledger.current(ledger.attempts(folder))
        lengths = [item.record["minutes"] for item in attempts if item.outcome == "converged"]
        usual = mean(lengths) if lengths else None
        begun = {item.wanted for item in attempts}
        place = {"system": wanted.system.name, "benchmark": wanted.benchmark}
        rows = [
            place | {"run": item.wanted, "attempt": item.number} | self._row(folder, item, usual, wanted.task.key)
            for item in attempts
        ]
        rows += [place | {"run": number, "state": "wanted"} for number in range(wanted.attempts) if number not in begun]
        return sorted(rows, key=lambda row: (row["run"], row.get("attempt", -1)))

    def _row(self, folder: Path, attempt: Attempt, usual: float | None, key: str) -> dict[str, Any]:
        home = folder / str(attempt.number)
        if record := attempt.record:
            shown = {key: record.get(key) for key in ("job", "minutes", "quality")}
            note = "" if record["outcome"] == "converged" else record.get("cause", "")
            return {"state": record["outcome"], "nodes": ",".join(record["nodes"]), "note": note, **shown}
        if not (home / JOB).exists():
            return {"state": "open", "note": "not launched, or its folder was removed"}
        job = files.read_json(home / JOB)
        log = self.logs.setdefault(home, Follower(home, key))
        log.look()
        minutes = None if log.started is None else max(0.0, time.time() - log.started / 1000) / 60
        state, told = self._state(home, job)
        return {
            "state": state,
            "job": job["id"],
            "nodes": ",".join(launchers.nodes(home)),
            "minutes": minutes,
            "eta": None if None in (minutes, usual) else max(0.0, usual - minutes),
            "quality": log.quality,
            "loss": log.loss,
            "speed": log.speeds[-1] if log.speeds else None,
            "note": log.not_a_number or told,
        }

    def _state(self, home: Path, job: Mapping[str, Any]) -> tuple[str, str]:
        if launchers.exit_status(home) is not None:
            return "ending", ""
        board = self.config.root / "runs" / f".states-{job['launcher']}.json"
        known = files.read_json(board)["states"].get(job["id"]) if board.exists() else None
        if launchers.nodes(home):
            return "running", ""
        return (known["phase"], known["told"]) if known else ("submitted", "")


def text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for a terminal; columns that say nothing are left out."""
    cells = [[_cell(row.get(name)) for name in COLUMNS] for row in rows]
    used = [index for index in range(len(COLUMNS)) if any(row[index] for row in cells)]
    lines = [[COLUMNS[index] for index in used], *([row[index] for index in used] for row in cells)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(used))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def show(config: Config, system: str | None, benchmark: str | None, as_json: bool) -> int:
    """Print the table: on a terminal again and again until every run is recorded, else once."""
    table = Table(config, system, benchmark)
    while True:
        rows = table.rows()
        if as_json:
            print(json.dumps(rows))
            return 0
        counts = {state: sum(row["state"] == state for row in rows) for state in sorted({row["state"] for row in rows})}
        shown = f"{text(rows)}\n" + ", ".join(f"{count} {state}" for state, count in counts.items())
        if not sys.stdout.isatty():
            print(shown)
            return 0
        print(f"\033[H\033[J{shown}", flush=True)
        if not counts.keys() & {"wanted", "open", "submitted", "pending", "running", "unknown", "ending"}:
            return 0
        time.sleep(REFRESH)


def write_prometheus(config: Config) -> None:
    """Write `watch.prometheus`, in the text format that a node exporter's textfile collector reads, at most once in 15
    s.
    """
    path = config.watch.prometheus
    if path.exists() and 0 <= time.time() - path.stat().st_mtime < 15:
        return
    files.write_text(path, prometheus(Table(config).rows()))


def prometheus(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as metrics: one for the state of each attempt, and one for each number that is known of it."""
    metrics = {
        "quality": "last evaluation",
        "loss": "last training loss",
        "speed": "samples a second, as the run says",
        "minutes": "since run_start, or of the whole run",
        "eta": "minutes to the usual end",
    }
    lines = ["# HELP podium_attempt_state 1 for the state that an attempt is in", "# TYPE podium_attempt_state gauge"]
    lines += [f"podium_attempt_state{{{_labels(row)},state={_quoted(row['state'])}}} 1" for row in rows]
    for name, words in metrics.items():
        known = [row for row in rows if row.get(name) is not None]
        lines += [f"# HELP podium_attempt_{name} {words}", f"# TYPE podium_attempt_{name} gauge"] if known else []
        lines += [f"podium_attempt_{name}{{{_labels(row)}}} {row[name]}" for row in known]
    return "\n".join(lines) + "\n"


def _labels(row: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={_quoted(str(row.get(name, '')))}" for name in ("system", "benchmark", "run", "attempt"))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
