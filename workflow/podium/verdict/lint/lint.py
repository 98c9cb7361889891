"""`podium lint TREE`: what the official tools do not look at, kept apart from their verdict.

Logs against folder and description, clocks, evaluation schedules, seeds, the code, names and links; the rules are in
workflow/catalog/lint.yaml. Nothing is written.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import files, progress
from podium.errors import FINDINGS, GOOD, Findings
from podium.verdict import findings, rounds, tree
from podium.verdict.findings import Finding
from podium.verdict.lint import contents, logs
from podium.verdict.lint.logs import Facts, finding
from podium.verdict.official.rulefiles import numbers
from podium.verdict.tree import Result, Submitter, System, Tree

FEW = 16  # logs that are read before other processes have started


@dataclass(frozen=True)
class Group:
    """Findings of one kind in one result, or in what a submitter's tree holds beside the results: the first one, and
    how many of the result's logs it is true of."""

    where: str
    first: Finding
    count: int = 1
    of: int = 1

    def as_json(self) -> dict[str, Any]:
        return {"where": self.where, **self.first.as_json(), "files": self.count}


def lint(found: Tree, round: str) -> list[Group]:
    """Every finding about a tree in the order of the tree; one broken part never hides another."""
    logs = [(path, result.shown(path)) for result in found.results for path in result.logs]
    if len(logs) < FEW:
        read = list(map(_read, logs))
    else:
        with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            read = list(progress.bar(pool.map(_read, logs, chunksize=8), "lint", len(logs)))
    seen = {path: facts for (path, _), facts in zip(logs, read, strict=True)}
    whole = found.kind in ("round", "submitter")
    return [group for submitter in found.submitters for group in _submitter(submitter, seen, round, whole)]


def _read(log: tuple[Path, str]) -> Facts | str:
    """What a log says, or why it cannot be read."""
    path, shown = log
    try:
        return logs.read(path, shown) if path.is_file() else "no regular file"
    except OSError as error:
        return error.strerror or str(error)


def _submitter(submitter: Submitter, seen: Mapping[Path, Facts | str], round: str, whole: bool) -> Iterator[Group]:
    """A submitter's results one by one, then what lies between them, then the rest of the tree."""
    known: list[tuple[Result, list[Facts], bool]] = []
    for system in submitter.systems:
        description, trouble = _describe(system)
        yield from _grouped(f"{submitter.name}/{system.name}", trouble)
        for result in system.results:
            facts = [log for path in result.logs if isinstance(log := seen[path], Facts)]
            found = [*logs.check(result, facts, description, round), *_nothing(result, seen)]
            yield from _grouped(result.name, [*found, *_other_round(facts, round)], len(result.logs))
            division = str(description.get("division", facts[0].value("submission_division") if facts else ""))
            known.append((result, facts, division.lower() != "open"))
    between: dict[str, list[Finding]] = {}
    for result, item in logs.repeated(known):
        between.setdefault(result.name, []).append(item)
    for name, items in between.items():
        yield from _grouped(name, items, len(items))
    if whole:
        yield from (Group(submitter.name, item) for item in contents.check(submitter))


def _describe(system: System) -> tuple[Mapping[str, Any], list[Finding]]:
    """A system's description, and what is wrong with it; an empty one where there is none that can be read."""
    if not system.results:
        return {}, []
    shown = system.results[0].shown(system.description)
    try:
        value = files.read_json(system.description)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return {}, [finding("nothing-to-lint", shown, 0, "a system description (JSON)", str(why))]
    if not isinstance(value, dict):
        return {}, [finding("nothing-to-lint", shown, 0, "a JSON object", type(value).__name__)]
    return value, list(logs.folder_counts(system.results[0], value))


def _nothing(result: Result, seen: Mapping[Path, Facts | str]) -> Iterator[Finding]:
    if not result.logs:
        yield finding("nothing-to-lint", result.shown(), 0, "result_*.txt", "no log")
    for path in result.logs:
        facts, shown = seen[path], result.shown(path)
        if isinstance(facts, str):
            yield finding("nothing-to-lint", shown, 0, "a log that can be read", facts)
        elif not facts.first:
            yield finding("nothing-to-lint", shown, 0, "MLLOG records", "none that lint knows")


def _other_round(facts: Sequence[Facts], round: str) -> Iterator[Finding]:
    since = opened(round)
    for log, event in logs.started(facts):
        moment = datetime.datetime.fromtimestamp(event.time_ms / 1000, datetime.UTC)
        if moment < since:
            yield finding("other-round", log.shown, event.line, f"a run since {since:%Y-%m}", f"{moment:%Y-%m-%d}")


def opened(round: str) -> datetime.datetime:
    """When the round before this one had closed: rounds close in May (x.0) and October (x.1), 1.0 in 2021.

    0.7 closed in the summer of 2020.
    """
    major, minor, *_ = numbers(round)
    year, month = (2020 + major, 6) if minor else (2019 + major, 8 if major == 1 else 11)
    return datetime.datetime(year, month, 1, tzinfo=datetime.UTC)


def _grouped(where: str, found: Iterable[Finding], of: int = 1) -> Iterator[Group]:
    """Findings of one rule with one expectation are one: ten logs with the same placeholder need one line."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for item in found:
        kinds.setdefault((item.rule, item.expected), []).append(item)
    for same in kinds.values():
        yield Group(where, same[0], len({item.path for item in same}), of)


def table(groups: Sequence[Group]) -> str:
    """The findings for a terminal, rule by rule."""
    blocks = []
    for id, rule in findings.rules().items():
        mine = [group for group in groups if group.first.rule == id]
        if mine:
            blocks.append("\n".join([f"{id}: {rule.rule}", f"    fix: {rule.fix}", *map(_line, mine)]))
    return "\n\n".join(blocks)


def _line(group: Group) -> str:
    count = f" ({group.count} of {group.of} logs)" if group.of > 1 else ""
    return f"  {group.first.place}: expected {group.first.expected}, found {group.first.found}{count}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", type=Path, help="a round, a submitter's tree, a system's results, a result or a log")
    rounds.argument(parser)
    parser.add_argument("--submitter", action="append", default=[], help="of a round, only this one; can be repeated")


def main(args: argparse.Namespace) -> int:
    """`podium lint TREE`: status 1 where anything is found."""
    found, round = tree.read(args.tree, tuple(args.submitter)), rounds.of(args, args.tree)
    groups, results = lint(found, round), sum(1 for _ in found.results)
    if args.json:
        answer = {"tree": str(args.tree), "round": round, "results": results}
        print(json.dumps({**answer, "findings": [group.as_json() for group in groups]}, indent=1))
        return FINDINGS if groups else GOOD
    if not groups:
        print(f"lint {args.tree}: nothing found in {results} results, round {round}")
        return GOOD
    print(table(groups))
    raise Findings(
        f"{args.tree}: {len(groups)} findings, {results} results looked at",
        f"none in round {round}; the official verdict is not touched by them",
        ", ".join(sorted({group.first.rule for group in groups})),
        "mend what is named; `podium explain RULE` says more, `podium check` gives the official verdict",
    )
