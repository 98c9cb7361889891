"""Benchmarks of one's own, judged in MLPerf's manner by rules of ours. Nothing here says anything about MLPerf's rules.

A log tells of one run: init_start, init_stop, run_start and run_stop once each and in this order, the benchmark that
the config names, a seed, and evaluations within the run; where run_stop says success, one of them met the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import podium
from podium import plan
from podium.config import Benchmark, Config
from podium.verdict.findings import ERROR, Finding, silent, worst
from podium.verdict.reading import logs
from podium.verdict.reading.logs import REHEARSAL, Broken, LogLine

RULES = "in-house rules"  # what stands in a verdict where MLPerf's have the round
CHECKER = f"podium {podium.__version__}"
SKELETON = ("init_start", "init_stop", "run_start", "run_stop")
ENDS = ("success", "aborted")


def check_log(path: Path, shown: str, task: Benchmark) -> list[Finding]:
    """Everything by which a log breaks the rules; never raises for what it holds. `shown` is how it is named."""
    try:
        items = list(logs.records(path))
    except OSError as error:
        return [silent("log-unreadable", ERROR, shown, "a file that can be read", error.strerror or str(error))]
    broken = next((item for item in items if isinstance(item, Broken)), None)
    found = [Finding("log-json", ERROR, shown, broken.line, "JSON after the token", broken.why)] if broken else []
    records = [item for item in items if isinstance(item, LogLine) and isinstance(item.key, str)]
    return found + [
        Finding(rule, ERROR, shown, line, expected, what) for rule, line, expected, what in _broken(records, task)
    ]


def _broken(records: list[LogLine], task: Benchmark) -> Iterator[tuple[str, int, str, str]]:
    """Rule, line, what is expected, what was found."""
    by_key: dict[str, list[LogLine]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    if REHEARSAL in by_key:
        yield "rehearsal-log", by_key[REHEARSAL][0].line, "the log of a training", "a rehearsal's, which trains nothing"
        return
    for key in (*SKELETON, "submission_benchmark", "seed"):
        if len(same := by_key.get(key, [])) != 1:
            yield "inhouse-log", same[1].line if same else 0, f"{key} once", f"{len(same)} times"
    moments = [by_key[key][0].timestamp for key in SKELETON if key in by_key]
    if moments != sorted(moments):
        yield "inhouse-log", 0, f"{', '.join(SKELETON)} in this order", "another order of their times"
    for name in by_key.get("submission_benchmark", []):
        if name.value["value"] != task.name:
            yield "inhouse-log", name.line, f"submission_benchmark {task.name}", repr(name.value["value"])[:80]
    yield from _end(by_key, task)


def _end(by_key: dict[str, list[LogLine]], task: Benchmark) -> Iterator[tuple[str, int, str, str]]:
    """How the run ended: by its word, and by its evaluations."""
    evaluations = by_key.get(task.key, [])
    values = [record.value["value"] for record in evaluations]
    for record, value in zip(evaluations, values, strict=True):
        place = logs.metadata(record)
        if not _number(value) or not any(_number(place.get(name)) for name in ("epoch_num", "samples_count")):
            yield (
                "inhouse-log",
                record.line,
                f"{task.key}: a number, with epoch_num or samples_count",
                f"{value!r}"[:80],
            )
            return
    if not evaluations:
        yield "inhouse-log", 0, f"evaluations, {task.key}", "none"
        return
    for stop in by_key.get("run_stop", [])[:1]:
        status = logs.metadata(stop).get("status")
        if status not in ENDS:
            yield "inhouse-log", stop.line, f"run_stop with status {' or '.join(ENDS)}", repr(status)[:80]
        within = [
            value for record, value in zip(evaluations, values, strict=True) if record.timestamp <= stop.timestamp
        ]
        best = (max if task.better == "higher" else min)(within, default=None)
        if status == "success" and (best is None or not met(task, best)):
            yield "inhouse-target", stop.line, f"{task.quality} {_wanted(task)} before run_stop says success", f"{best}"


def met(task: Benchmark, value: float) -> bool:
    """Whether a quality meets the target of a benchmark of one's own."""
    return value >= task.target if task.better == "higher" else value <= task.target


def _wanted(task: Benchmark) -> str:
    return f"{'>=' if task.better == 'higher' else '<='} {task.target:g}"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_tree(config: Config) -> dict[str, Any]:
    """The packed tree of a config again, log by log: as many as the config asks for, each by the rules."""
    tree = plan.tree_folder(config)
    found: list[Finding] = []
    for item in plan.plans(config):
        folder = tree / "results" / item.system.name / item.benchmark
        logs = sorted(folder.glob("result_*.txt"))
        if len(logs) != item.required:
            shown = folder.relative_to(tree.parent).as_posix()
            found.append(silent("run-count", ERROR, shown, f"{item.required} logs", str(len(logs))))
        wrong = [check_log(path, path.relative_to(tree.parent).as_posix(), item.task) for path in logs]
        if sum(map(bool, wrong)) > 1:  # one is dropped as the slowest
            found += [finding for log in wrong for finding in log]
    return {
        "verdict": worst(found),
        "tree": str(tree),
        "round": RULES,
        "checker": CHECKER,
        "findings": [finding.as_json() for finding in found],
    }
