"""The verdict on a result while it lies in the work root: each attempt, those that count, and why those."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from podium import files, plan
from podium.config import Config
from podium.errors import BadInput
from podium.plan import Plan
from podium.runs import ledger, select
from podium.runs.ledger import Attempt
from podium.verdict import inhouse, submission, tree
from podium.verdict.answer import record
from podium.verdict.findings import ERROR, WARNING, Finding, silent, worst
from podium.verdict.official import unmodified
from podium.verdict.reading import cache
from podium.verdict.reading.digest import Digest
from podium.verdict.score.olympic import Score, dropped_each_side, olympic
from podium.verdict.submission import Submission


@dataclass(frozen=True)
class Heard:
    """What the rules say of one log; `findings` only where they are those of a benchmark of one's own."""

    compliant: bool
    messages: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Whole:
    """What the rules say of a result as a whole. `official` is the package checker's answer, `more` goes with it."""

    rules: str
    checker: str
    compliant: bool
    official: dict[str, Any]
    findings: tuple[Finding, ...]
    more: dict[str, Any]


def check(config: Config, wanted: Plan) -> dict[str, Any]:
    """Check each log of a result, and the result as the package checker sees it; writes the verdict.

    The official answer and Podium's own findings stand apart in it. A benchmark of one's own has no official answer.
    """
    folder = plan.result_folder(config, wanted)
    attempts = ledger.current(ledger.attempts(folder))
    logs = {attempt.number: _log(folder, attempt) for attempt in attempts}
    heard = _hear(config, wanted, logs.values())
    compliant = {number: heard[log].compliant for number, log in logs.items()}
    choice = select.choose(attempts, wanted.required, lambda runs: _score(runs, wanted.benchmark, compliant).minutes)
    score = _score(choice.counted, wanted.benchmark, compliant)
    if wanted.task.inhouse:
        whole = _inhouse([heard[logs[attempt.number]] for attempt in choice.counted], score)
    else:
        whole = _as_package(config, wanted, choice.counted)
    ended = sum(attempt.countable for attempt in attempts)
    own = _own_findings(config, wanted, choice.counted, score, ended)
    untold = [item for item in whole.findings if item.level == ERROR and item.official == "says nothing"]
    value = {
        "system": wanted.system.name,
        "benchmark": wanted.benchmark,
        "round": whole.rules,
        "division": config.submission.division,
        "checker": whole.checker,
        "verdict": "compliant" if whole.compliant and not own else "not compliant",
        "official": whole.official,
        "findings": [item.found for item in own] + [f"{item.place}: {item.rule}: {item.found}" for item in untold],
        "explained": [item.as_json() for item in (*own, *whole.findings)],
        "notes": ledger.removed(folder),
        "runs": [_run(attempt, heard[logs[attempt.number]]) for attempt in attempts],
        "counted": [attempt.number for attempt in choice.counted],
        "choice": choice.rule,
        "planned": wanted.attempts,
        "proof": choice.proof(),
        "score": asdict(score),
        **whole.more,
    }
    value = record.clean(value)
    files.write_json(plan.verdict_file(config, wanted), value)
    return value


def landed(config: Config, wanted: Plan, attempt: Attempt) -> dict[str, Any]:
    """The verdict on one attempt that has just ended, written beside that of its result."""
    path = _log(plan.result_folder(config, wanted), attempt)
    value = record.clean(_run(attempt, _hear(config, wanted, [path])[path]))
    files.write_json(plan.verdict_file(config, wanted).with_suffix("") / f"{attempt.number}.json", value)
    return value


def lost(config: Config, wanted: Plan, fingerprint: str) -> str | None:
    """Why a result can no longer be valid, whatever its remaining runs bring; None while it can.

    Only attempts with this `fingerprint` are of the result: others were made with another image, data or config.
    A run counts as failed where it missed its target or its log does not comply. With more attempts than required runs,
    the median window of N consecutive ones counts (training rules, run selection): the result is lost when so many
    windows are invalid that the median must be.
    """
    folder = plan.result_folder(config, wanted)
    every = [item for item in ledger.attempts(folder) if item.fingerprint == fingerprint]
    attempts = [item for item in every if item.countable]
    windows = wanted.attempts - wanted.required + 1
    if windows > 1 and any(item.outcome == "open" for item in every):
        return None  # which windows the finished ones are in is not known yet
    logs = [_log(folder, item) for item in attempts]
    heard = _hear(config, wanted, logs)
    failed = [item.outcome != "converged" or not heard[log].compliant for item, log in zip(attempts, logs, strict=True)]
    allowed = dropped_each_side(wanted.benchmark)
    invalid = sum(sum(failed[start : start + wanted.required]) > allowed for start in range(windows))
    if invalid < windows - windows // 2:
        return None
    numbers = [item.number for item, lost in zip(attempts, failed, strict=True) if lost]
    return f"attempts {numbers} failed, {allowed} may among {wanted.required} runs"


def _hear(config: Config, wanted: Plan, logs: Iterable[Path]) -> dict[Path, Heard]:
    """What the rules say of each log: MLPerf's of the round, or ours for a benchmark of one's own."""
    if not wanted.task.inhouse:
        known = cache.digests(logs, config.submission.round, cache.place(config.root))
        return {
            log: Heard(digest.compliant is True and not digest.rehearsal, _messages(digest))
            for log, digest in known.items()
        }
    found = {log: tuple(inhouse.check_log(log, f"{log.parent.name}/{log.name}", wanted.task)) for log in logs}
    return {
        log: Heard(
            not items, tuple(f"{item.place}: expected {item.expected}, found {item.found}" for item in items), items
        )
        for log, items in found.items()
    }


def _inhouse(counted: Sequence[Heard], score: Score) -> _Whole:
    """A result of a benchmark of one's own: as many runs may break the rules as the score drops."""
    level = WARNING if score.minutes is not None else ERROR
    found = tuple(replace(item, level=level) for heard in counted for item in heard.findings)
    official = {"passed": None, "answer": "none", "messages": []}
    return _Whole(inhouse.RULES, inhouse.CHECKER, worst(found) == "compliant", official, found, {})


def _as_package(config: Config, wanted: Plan, counted: Sequence[Attempt]) -> _Whole:
    """The official tools' answer on a result, which must be of the pinned version."""
    checker = f"mlperf-logging {unmodified.version(config.checker_version)}"
    package = _package(config, wanted, counted)
    passed = package.official == "pass"
    official = {"passed": passed, "answer": package.official, "messages": _said(package)}
    good = passed and package.word == "compliant"
    more = {"result": record.result(package.verdicts[0])}
    return _Whole(config.submission.round, checker, good, official, tuple(package.every), more)


def _package(config: Config, wanted: Plan, counted: Sequence[Attempt]) -> Submission:
    """The verdict on a tree that holds this one result, its counted runs as result_0.txt, result_1.txt …"""
    description = plan.system_file(config, wanted.system.name)
    if not description.exists():
        raise BadInput(
            f"no description of system {wanted.system.name}",
            str(description),
            "nothing",
            f"podium describe --system {wanted.system.name} --config {config.path}",
        )
    with tempfile.TemporaryDirectory(prefix="podium-check-") as place:
        root = Path(place) / config.submission.org
        results = root / "results" / wanted.system.name / wanted.benchmark
        results.mkdir(parents=True)
        (root / "systems").mkdir()
        (root / "systems" / description.name).symlink_to(description.absolute())
        for index, attempt in enumerate(counted):
            log = _log(plan.result_folder(config, wanted), attempt)
            (results / f"result_{index}.txt").symlink_to(log.absolute())
        seen = tree.read(results)
        known = cache.digests(next(seen.results).logs, config.submission.round, cache.place(config.root))
        return submission.check(seen, known, config.submission.round)[0]


def _own_findings(config: Config, wanted: Plan, counted: Sequence[Attempt], score: Score, ended: int) -> list[Finding]:
    """What the official tool does not look at: convergence in the open division, the ledger, too few runs.

    `ended` runs have ended, of which `counted` are chosen.
    """
    folder = plan.result_folder(config, wanted)
    place = f"{wanted.system.name}/{wanted.benchmark}"
    intact = "attempts as they were recorded"
    found = [silent("ledger-broken", ERROR, place, intact, problem) for problem in ledger.problems(folder)]
    failed = [attempt.number for attempt in counted if attempt.outcome != "converged"]
    if failed and score.minutes is None:
        text = f"attempts {failed} did not reach the target: {score.why}"
        found.append(silent("attempts-not-converged", ERROR, place, "a valid olympic score", text))
    if len(counted) < wanted.required:
        text = f"{wanted.required} runs are required, {len(counted)} are there"
        found.append(silent("run-count", ERROR, place, f"{wanted.required} runs", text))
    elif ended < wanted.attempts:
        text = f"{wanted.attempts} runs are to be made as a group, {ended} have ended: which count is not known yet"
        found.append(silent("run-count", ERROR, place, f"all {wanted.attempts} runs before any are chosen", text))
    # Reviewers may ask for the logs of all attempts (training rules, run selection): in the closed division a lost
    # one stops the result.
    if config.submission.division == "closed":
        lost = ledger.removed(folder)
        found += [silent("attempts-lost", ERROR, place, "the logs of all attempts", text) for text in lost]
    return found


def _said(package: Submission) -> list[str]:
    return [text for part in (*package.descriptions, *package.verdicts) for text in part.messages]


def _log(folder: Path, attempt: Attempt) -> Path:
    return folder / str(attempt.number) / "result.txt"


def _messages(digest: Digest) -> tuple[str, ...]:
    fallen = [f"ERROR: {digest.fall.error}: {digest.fall.found}"] if digest.fall else []
    rehearsed = ["ERROR: rehearsal-log: nothing was trained"] if digest.rehearsal else []
    return (*rehearsed, *fallen, *(f"WARNING: {text.strip()}" for text in digest.messages()))


def _run(attempt: Attempt, heard: Heard) -> dict[str, Any]:
    record = attempt.record or {}
    return {
        "attempt": attempt.number,
        "outcome": attempt.outcome,
        "seed": attempt.seed,
        "quality": record.get("quality"),
        "minutes": record.get("minutes"),
        "compliant": heard.compliant,
        "messages": list(heard.messages),
    }


def _score(attempts: Sequence[Attempt], benchmark: str, compliant: Mapping[int, bool]) -> Score:
    """The olympic score of runs; one that missed its target or does not comply counts as failed."""
    good = [item.outcome == "converged" and compliant[item.number] for item in attempts]
    times = [item.record["minutes"] if fine else None for item, fine in zip(attempts, good, strict=True)]
    return olympic(times, benchmark)
