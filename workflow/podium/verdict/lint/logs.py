"""What a result's logs say about themselves, against their folder, their system's description and the rules.

Everything here is a pure function of `Facts` (what one log says) and of what it is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from podium import files
from podium.verdict.findings import WARNING, Finding
from podium.verdict.lint import schedule
from podium.verdict.reading import logs
from podium.verdict.reading.logs import LogLine
from podium.verdict.tree import Result

# The first record of each of these is kept of a log, beside its evaluations and seeds.
KEYS = (
    *("submission_org", "submission_platform", "submission_benchmark", "submission_division", "global_batch_size"),
    *("number_of_nodes", "accelerators_per_node", "init_start", "run_start", "run_stop", logs.REHEARSAL),
)
EVALUATIONS = ("eval_accuracy", "eval_error")
PLACEHOLDER = re.compile(
    r"placeholder|reference_implementation|^(your|my|some)[_ -]|^<.*>$|^(unknown|none|todo|tbd|\?*)$", re.I
)
EARLIEST, LATEST = 1.5e12, 4e12  # ms since 1970, 2017 to 2096: before the first round no log was written
BACKWARDS = 1_000  # ms: the writers of a log run on several nodes and buffer their lines


@dataclass(frozen=True)
class Event:
    """What is kept of a record: its line in the file from 1, its time in ms since 1970, and what it says."""

    line: int
    time_ms: float
    key: str
    value: Any
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What one log says: first records by key, evaluations and seeds in file order, and where time goes wrong.

    `shown` is how its path is written. `backwards` is the pair of neighbours before run_stop between which time falls
    back the most, if any; `implausible` the first record whose time is no date.
    """

    shown: str
    sha256: str
    first: Mapping[str, Event]
    evaluations: tuple[Event, ...]
    seeds: tuple[Event, ...]
    backwards: tuple[Event, Event] | None
    implausible: Event | None

    def value(self, key: str) -> Any:
        return self.first[key].value if key in self.first else None

    @property
    def run(self) -> tuple[float | None, float | None]:
        """When the run started and stopped: two logs with the same two moments are of the same run."""
        start, stop = self.first.get("run_start"), self.first.get("run_stop")
        return (start.time_ms if start else None, stop.time_ms if stop else None)


def read(path: Path, shown: str) -> Facts:
    """Read a log, line by line; raises OSError where it cannot be read."""
    first: dict[str, Event] = {}
    evaluations, seeds = [], []
    backwards, implausible, before = None, None, None
    for record in logs.records(path):
        if not isinstance(record, LogLine) or not isinstance(record.key, str):
            continue
        event = Event(record.line, record.timestamp, record.key, record.value["value"], logs.metadata(record))
        if event.key in KEYS:
            first.setdefault(event.key, event)
        if event.key in EVALUATIONS:
            evaluations.append(event)
        if event.key == "seed":
            seeds.append(event)
        if not EARLIEST < event.time_ms < LATEST:
            implausible = implausible or event
            continue
        if before and "run_stop" not in first and before.time_ms - event.time_ms > BACKWARDS:
            backwards = max(backwards or (event, event), (before, event), key=_fall)
        before = event
    return Facts(shown, files.hash_file(path), first, tuple(evaluations), tuple(seeds), backwards, implausible)


def check(result: Result, facts: Sequence[Facts], description: Mapping[str, Any], round: str) -> Iterator[Finding]:
    """Everything about a result's logs one by one."""
    for log in facts:
        if (mark := log.first.get(logs.REHEARSAL)) is not None:
            yield _finding("rehearsal-log", log, mark, "the log of a training", "a rehearsal's")
        yield from _identity(result, log, description)
        yield from _counts(result, log, description)
        division = str(description.get("division", log.value("submission_division")))
        yield from _time(log, round, division, result.benchmark)
        if division != "open":  # there any stopping criterion will do (T 458)
            yield from _evaluations(result.benchmark, log, round)


def _identity(result: Result, log: Facts, description: Mapping[str, Any]) -> Iterator[Finding]:
    submitter = str(description.get("submitter", ""))
    if (org := log.first.get("submission_org")) is not None:
        if PLACEHOLDER.search(str(org.value)):
            yield _finding("org-placeholder", log, org, f"{result.submitter}", str(org.value))
        elif not any(_same(str(org.value), name) for name in (result.submitter, submitter)):
            yield _finding("org-differs", log, org, _either(result.submitter, submitter), str(org.value))
    if (platform := log.first.get("submission_platform")) is not None:
        names = _either(result.system, str(description.get("system_name", "")))
        if PLACEHOLDER.search(str(platform.value)):
            yield _finding("platform-placeholder", log, platform, names, str(platform.value))
        elif not _is_platform(str(platform.value), result, description):
            yield _finding("platform-differs", log, platform, names, str(platform.value))
    benchmark = log.first.get("submission_benchmark")
    if benchmark is not None and benchmark.value != result.benchmark:
        yield _finding("benchmark-differs", log, benchmark, result.benchmark, str(benchmark.value))
    division = log.first.get("submission_division")
    if division is not None and "division" in description and division.value != description["division"]:
        yield _finding("division-differs", log, division, str(description["division"]), str(division.value))


def _same(one: str, other: str) -> bool:
    """Whether two names mean the same: spelling aside, one may be a part of the other (Habana, Intel-HabanaLabs)."""
    a, b = _letters(one), _letters(other)
    return bool(a and b) and (a in b or b in a)


# Words that many systems' names hold and that tell none from another.
_COMMON = re.compile(r"^(sxm\d*|pcie|nvlink|nvbridge|hbm\d*e?|hgx|dgx|nodes?|\d+gb|\d+)$")


def _is_platform(platform: str, result: Result, description: Mapping[str, Any]) -> bool:
    """Whether submission_platform names the system: by folder, by system_name, or by nothing but its processor."""
    bare = re.sub(r"^\d+x", "", platform)
    names = [result.system, str(description.get("system_name", ""))]
    org = _words(f"{result.submitter} {description.get('submitter', '')}")
    without_org = "".join(word for word in re.findall(r"[a-z0-9]+", bare.lower()) if word not in org)
    if any(_same(part, name) for part in (bare, without_org) for name in names):
        return True
    own = {word for word in _words(bare) if not _COMMON.match(word)} - org
    processor = _words(f"{description.get('accelerator_model_name')} {description.get('host_processor_model_name')}")
    return _meet(own, _words(" ".join(names))) or (bool(own) and all(_meet({word}, processor) for word in own))


def _meet(some: set[str], others: set[str]) -> bool:
    """Whether a word is among others, whole or, from four letters on, as the start of one (gaudi, gaudi2)."""
    return any(word in others or (len(word) > 3 and any(other.startswith(word) for other in others)) for word in some)


def _words(text: str) -> set[str]:
    """Words of a name, without a count before them: 8xB200 is b200."""
    return {re.sub(r"^\d+x(?=\D)", "", word) for word in re.findall(r"[a-z0-9]+", text.lower())}


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _either(one: str, other: str) -> str:
    return one if not other or one == other else f"{one} or {other}"


def _counts(result: Result, log: Facts, description: Mapping[str, Any]) -> Iterator[Finding]:
    """Nodes and accelerators where the log names them; platforms are often written as <nodes>x<system>."""
    nodes, each = _whole(description.get("number_of_nodes")), _whole(description.get("accelerators_per_node"))
    if nodes is None or each is None:
        return
    for key, expected, rule in (
        ("number_of_nodes", nodes, "node-count"),
        ("accelerators_per_node", each, "accelerator-count"),
    ):
        if (event := log.first.get(key)) is not None and _whole(event.value) != expected:
            yield _finding(rule, log, event, f"{expected} (description)", str(event.value))
    platform = log.first.get("submission_platform")
    count = re.match(r"(\d+)x(?=\D)", str(platform.value)) if platform else None
    if count and int(count[1]) not in (nodes, each, nodes * each):
        yield _finding("node-count", log, platform, f"{nodes} nodes (description)", str(platform.value))


def folder_counts(result: Result, description: Mapping[str, Any]) -> Iterator[Finding]:
    """Nodes and accelerators that the system's name tells, against its description."""
    nodes, each = _whole(description.get("number_of_nodes")), _whole(description.get("accelerators_per_node"))
    if nodes is None or each is None:
        return
    where = result.shown(result.folder.parent)
    for pattern in (r"(?:^|[._-])n(\d+)(?=[._-]|$)", r"^(\d+)-nodes?(?=[._-]|$)"):
        if (found := re.search(pattern, result.system)) and int(found[1]) != nodes:
            yield finding("node-count", where, 0, f"{nodes} nodes (description)", result.system)
    if (found := re.search(r"ngpu(\d+)", result.system)) and int(found[1]) != nodes * each:
        yield finding("accelerator-count", where, 0, f"{nodes} x {each} accelerators (description)", result.system)


def _time(log: Facts, round: str, division: str, benchmark: str) -> Iterator[Finding]:
    if log.implausible is not None:
        yield _finding("time-implausible", log, log.implausible, "a date", f"time_ms {log.implausible.time_ms:g}")
    if log.backwards is not None:
        before, event = log.backwards
        found = f"{event.key} is {_fall(log.backwards) / 1000:.1f} s earlier than {before.key}"
        yield _finding("time-backwards", log, event, f"no earlier than line {before.line}", found)
    started, run = log.first.get("init_start"), log.first.get("run_start")
    if started and run and started.time_ms > EARLIEST and run.time_ms < LATEST:
        limit, minutes = untimed_minutes(round, division, benchmark), (run.time_ms - started.time_ms) / 60_000
        if minutes > limit:
            yield _finding("init-too-long", log, run, f"at most {limit} min", f"{minutes:.1f} min")


def untimed_minutes(round: str, division: str, benchmark: str) -> int:
    """How long a model may be initialised off the clock: 30 min, gpt3 60; 4 h in the open division since 2.0."""
    if division == "open" and tuple(map(int, round.split("."))) >= (2,):
        return 240
    return 60 if benchmark == "gpt3" else 30


def _evaluations(benchmark: str, log: Facts, round: str) -> Iterator[Finding]:
    batch = _whole(log.value("global_batch_size"))
    expected = schedule.schedule(benchmark, round, batch) if batch and batch > 0 else None
    evaluations = [event for event in log.evaluations if _point(event) is not None]
    if expected is None or not evaluations:
        return
    if len({_point(event) for event in evaluations}) > 1:
        # Several processes may log an evaluation, and the end of an epoch may be one of its own.
        evaluations = [list(same)[0] for _, same in groupby(evaluations, key=_point)]
    points = [_point(event) for event in evaluations]
    if miss := schedule.misnumbered(benchmark, points):
        wanted = f"growing numbers of {expected.unit}"
        yield _finding("epoch-numbering", log, evaluations[miss.index], wanted, miss.found)
        return
    if benchmark == "unet3d" and points[0] > 50_000:  # since 3.1 in samples, of 168 volumes or of padded epochs
        padded = -(-168 // batch) * batch
        points = [point / (padded if all(p % padded == 0 for p in points) else 168) for point in points]
    if miss := schedule.miss(expected, points):
        wanted = f"{expected} (global batch size {batch})"
        yield _finding("evaluation-schedule", log, evaluations[miss.index], wanted, miss.found)


def _point(event: Event) -> int | float | None:
    """Where in the training an evaluation was: epoch_num, or samples_count where there is none."""
    point = event.metadata.get("epoch_num", event.metadata.get("samples_count"))
    return point if isinstance(point, (int, float)) and not isinstance(point, bool) else None


def repeated(results: Sequence[tuple[Result, Sequence[Facts], bool]]) -> Iterator[tuple[Result, Finding]]:
    """Seeds and runs that appear twice among a submitter's results; the flag says that seeds are bound (closed)."""
    runs: dict[Any, tuple[Result, Facts]] = {}
    drawn: list[tuple[Result, dict[str, tuple[Facts, Event]]]] = []
    for result, facts, closed in results:
        seeds: dict[str, tuple[Facts, Event]] = {}
        again = 0
        for log in facts:
            again += any(event for event in log.seeds if str(event.value) in seeds)
            for event in log.seeds:
                earlier, _ = seeds.setdefault(str(event.value), (log, event))
                if closed and earlier is not log:
                    found = f"seed {event.value}, also in {_name(earlier)}"
                    yield result, _finding("seed-reused", log, event, "a seed of its own", found)
            other, twin = runs.setdefault(log.run if None not in log.run else log.sha256, (result, log))
            if twin is not log:
                found = f"the same run as {other.name}/{_name(twin)}"
                same = " (the same bytes)" if twin.sha256 == log.sha256 else ""
                start = log.first.get("run_start")
                yield result, _finding("log-reused", log, start, "another run", found + same)
        if closed:
            for other, theirs in drawn:
                common = seeds.keys() & theirs.keys()
                # A few seeds of 15 bits may meet by chance; half of a result's do not.
                if 2 * len(common) >= min(len(seeds), len(theirs)) > 0 and (len(common) > 1 or again):
                    log, event = seeds[min(common)]
                    found = f"{len(common)} of {len(seeds)} seeds as in {other.name}: {', '.join(sorted(common)[:5])}"
                    yield result, _finding("seed-reused", log, event, "seeds of its own", found)
                    break
            drawn.append((result, seeds))


def started(facts: Sequence[Facts]) -> Iterator[tuple[Facts, Event]]:
    """The logs' run_start records that have a date."""
    for log in facts:
        if (event := log.first.get("run_start")) is not None and EARLIEST < event.time_ms < LATEST:
            yield log, event


def _name(log: Facts) -> str:
    return log.shown.rsplit("/", 1)[-1]


def _fall(pair: tuple[Event, Event]) -> float:
    return pair[0].time_ms - pair[1].time_ms


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _finding(rule: str, log: Facts, event: Event | None, expected: str, found: str) -> Finding:
    return finding(rule, log.shown, event.line if event else 0, expected, found)


def finding(rule: str, path: str, line: int, expected: str, found: str) -> Finding:
    """A finding of lint: it never makes a verdict, and the official tools say nothing of it."""
    return Finding(rule, WARNING, path, line, expected, found, "", "says nothing")
