"""`podium check`: the official verdict on a result while it lies in the work root, or on a submission tree."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput, Findings
from podium.plan import Plan
from podium.runs import ledger, select
from podium.runs.ledger import Attempt
from podium.verdict import official
from podium.verdict.score import olympic


def check_result(config: Config, wanted: Plan) -> dict[str, Any]:
    """Check each log of a result, and the result as the package checker sees it; writes the verdict.

    The official answer and Podium's own findings stand apart in it.
    """
    version = official.version(config.checker_version)
    folder = plan.result_folder(config, wanted)
    round = config.submission.round
    attempts = ledger.current(ledger.attempts(folder))
    choice = select.choose(attempts, wanted.required, lambda window: _score(window, wanted.benchmark).minutes)
    runs = []
    for attempt in attempts:
        log = folder / str(attempt.number) / "result.txt"
        verdict = official.check_log(log, round) if log.exists() else official.Verdict(False, ("ERROR: no result.txt",))
        runs.append(_run(attempt, verdict))
    package = _check_as_package(config, wanted, choice.counted)
    findings = _own_findings(wanted, folder, choice.counted)
    # Reviewers may ask for the logs of all attempts (training rules, run selection): in the closed division a lost
    # one stops the result.
    removed = ledger.removed(folder)
    findings += removed if config.submission.division == "closed" else []
    answer = {
        "system": wanted.system.name,
        "benchmark": wanted.benchmark,
        "round": round,
        "division": config.submission.division,
        "checker": f"mlperf-logging {version}",
        "verdict": "compliant" if package.passed and not findings else "not compliant",
        "official": asdict(package),
        "findings": findings,
        "notes": removed,
        "runs": runs,
        "counted": [attempt.number for attempt in choice.counted],
        "choice": choice.rule,
        "score": asdict(_score(choice.counted, wanted.benchmark)),
    }
    files.write_json(plan.verdict_file(config, wanted), answer)
    return answer


def check_tree(tree: Path, round: str) -> dict[str, Any]:
    """The official package and repository checkers on a submission tree, which is left as it is."""
    for name in ("systems", "results"):
        if not (tree / name).is_dir():
            raise BadInput(
                f"{tree} is not a submission tree", "a folder with systems/ and results/", f"no {name}/", f"ls {tree}"
            )
    silent = [] if any((tree / "results").rglob("result_*.txt")) else ["ERROR: there is no result_*.txt in results/"]
    package = official.check_package(tree, round)
    repository = official.check_repository(tree)
    return {
        "tree": str(tree),
        "round": round,
        "verdict": "compliant" if package.passed and repository.passed and not silent else "not compliant",
        "package": asdict(package),
        "repository": asdict(repository),
        "findings": silent,
    }


def _check_as_package(config: Config, wanted: Plan, counted: Sequence[Attempt]) -> official.Verdict:
    """The package checker on a tree that holds this one result."""
    with tempfile.TemporaryDirectory(prefix="podium-check-") as place:
        tree = Path(place) / config.submission.org
        results = tree / "results" / wanted.system.name / wanted.benchmark
        results.mkdir(parents=True)
        (tree / "systems").mkdir()
        description = plan.system_file(config, wanted.system.name)
        if not description.exists():
            raise BadInput(
                f"no description of system {wanted.system.name}",
                str(description),
                "nothing",
                f"podium describe --system {wanted.system.name} --config {config.path}",
            )
        shutil.copy2(description, tree / "systems" / description.name)
        for index, attempt in enumerate(counted):
            log = plan.result_folder(config, wanted) / str(attempt.number) / "result.txt"
            shutil.copy2(log, results / f"result_{index}.txt")
        return official.check_package(tree, config.submission.round)


def _own_findings(wanted: Plan, folder: Path, counted: Sequence[Attempt]) -> list[str]:
    """What the official tool does not look at: convergence in the open division, the ledger, too few runs."""
    found = ledger.problems(folder)
    failed = [attempt.number for attempt in counted if attempt.outcome != "converged"]
    score = _score(counted, wanted.benchmark)
    if failed and score.minutes is None:
        found.append(f"attempts {failed} did not reach the target: {score.why}")
    if len(counted) < wanted.required:
        found.append(f"{wanted.required} runs are required, {len(counted)} are there")
    return found


def _run(attempt: Attempt, verdict: official.Verdict) -> dict[str, Any]:
    record = attempt.record or {}
    return {
        "attempt": attempt.number,
        "outcome": attempt.outcome,
        "seed": attempt.seed,
        "quality": record.get("quality"),
        "minutes": record.get("minutes"),
        "compliant": verdict.passed,
        "messages": list(verdict.messages),
    }


def _score(attempts: Sequence[Attempt], benchmark: str) -> Any:
    times = [attempt.record["minutes"] if attempt.outcome == "converged" else None for attempt in attempts]
    return olympic(times, benchmark)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", nargs="?", type=Path, help="a submission tree (default: the one of the config)")
    parser.add_argument("--round", help="the ruleset, like 3.1.0 (default: that of the config)")
    parser.add_argument("--system", help="with --benchmark: check one result of the work root instead of a tree")
    parser.add_argument("--benchmark")
    parser.add_argument("--verdict", type=Path, metavar="FILE", help="write the answer about a tree here")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium check [TREE]` or `podium check --system S --benchmark B`: status 1 where anything is found."""
    if args.system and args.benchmark:
        config = configuration.load(args.config)
        wanted = plan.of(config, args.system, args.benchmark)
        answer = check_result(config, wanted)
        thing, messages = f"{args.system}/{args.benchmark}", answer["official"]["messages"]
        summary = f"{len(answer['counted'])} runs counted ({answer['choice']})"
        command = f"podium score --config {args.config}"
    else:
        config = configuration.load(args.config) if args.tree is None or args.round is None else None
        tree = args.tree or plan.tree_folder(config)
        answer = check_tree(tree, args.round or config.submission.round)
        thing, messages = str(tree), answer["package"]["messages"] + answer["repository"]["messages"]
        summary = "package and repository checkers passed"
        command = "mend what is named and run the same command again"
        if args.verdict:
            files.write_json(args.verdict, answer)
    if args.json:
        print(json.dumps(answer, indent=1))
    elif answer["verdict"] == "compliant":
        print(f"check {thing}: compliant with {answer['round']}, {summary}")
    if answer["verdict"] != "compliant":
        found = [*answer["findings"], *messages]
        expected = f"what the rules of {answer['round']} ask for"
        raise Findings(f"{thing} is not compliant", expected, "\n    ".join(["", *found]), command)
    return 0
