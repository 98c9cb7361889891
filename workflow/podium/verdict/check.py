"""`podium check`: the official verdict on any results tree or part of one, or on a result in the work root.

The pinned mlperf_logging decides by its rule files, its reference data and its functions; the logs are read once, by
all cores, and what is known of them is kept. Nothing is written into the tree.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium import files
from podium.arguments import DEFAULT_CONFIG
from podium.errors import FINDINGS, GOOD, BadInput, Findings

if TYPE_CHECKING:  # the rest is imported where it is used: --help is quick, and a tree needs no config
    from podium.config import Config
    from podium.plan import Plan
    from podium.verdict.submission import Submission
    from podium.verdict.tree import Tree


def check_result(config: Config, wanted: Plan) -> dict[str, Any]:
    """Check each log of a result of the work root and the result as a whole; writes the verdict."""
    from podium.verdict import attempts

    return attempts.check(config, wanted)


def check_tree(tree: Path, round: str) -> dict[str, Any]:
    """The official package and repository checkers on a finished submission tree, which is left as it is."""
    for name in ("systems", "results"):
        if not (tree / name).is_dir():
            raise BadInput(
                f"{tree} is not a submission tree", "a folder with systems/ and results/", f"no {name}/", f"ls {tree}"
            )
    return _look(tree, round, (), None).answer


@dataclass(frozen=True)
class _Seen:
    tree: Tree
    submissions: Sequence[Submission]
    answer: dict[str, Any]


def _look(path: Path, round: str, only: Sequence[str], root: Path | None) -> _Seen:
    from podium.verdict import submission, tree
    from podium.verdict.answer import record
    from podium.verdict.official import rulefiles
    from podium.verdict.reading import cache

    seen = tree.read(path, tuple(only))
    logs = [log for result in seen.results for log in result.logs]
    place = cache.place(root)
    known = cache.digests(logs, round, None if place.resolve().is_relative_to(path.resolve()) else place)
    submissions = submission.check(seen, known, round)
    checker = f"mlperf-logging {rulefiles.version()}"
    return _Seen(seen, submissions, record.as_json(seen, round, checker, submissions))


def _beside(wanted: str, seen: _Seen, round: str, cache: Path) -> list[dict[str, Any]]:
    """The answer of another version of the tool on each submitter, beside ours.

    It is asked with the flags of the root's params file, and once more with that for bert where our answer is by it.
    """
    from podium.verdict.official import params, rcptest, unmodified

    tool = unmodified.tool(wanted, cache)
    rows = []
    for submitter, ours in zip(seen.tree.submitters, seen.submissions, strict=True):
        flags = [item.name for item in ours.parameters if item.counts]
        asked = [flags]
        if any(item.rcp and item.rcp.way == rcptest.SAMPLES for item in ours.verdicts):
            asked += [[*flags, params.TRAIN_SAMPLES]] if params.TRAIN_SAMPLES not in flags else []
        for flags in asked:
            said = unmodified.ask(tool, submitter, round, flags)
            about = {"submitter": submitter.name, "checker": tool.name, "flags": flags}
            rows.append({**about, "official": said.answer, "ours": ours.official, "errors": list(said.errors)})
    return rows


def arguments(parser: argparse.ArgumentParser) -> None:
    from podium.verdict import rounds

    parser.add_argument(
        "tree",
        nargs="?",
        type=Path,
        help="a submission, a round of them, a system, a result or a log (default: the config's submission)",
    )
    rounds.argument(parser)
    parser.add_argument("--submitter", action="append", default=[], help="of a round, only this one; can be repeated")
    parser.add_argument(
        "--checker", metavar="PATH|VERSION", help="show the answer of another version of the official tool beside ours"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the answer as JUnit XML too")
    parser.add_argument("--verdict", type=Path, metavar="FILE", help="write the answer as JSON here")
    parser.add_argument("--system", help="with --benchmark: check one result of the work root instead of a tree")
    parser.add_argument("--benchmark")


def main(args: argparse.Namespace) -> int:
    """`podium check [TREE]` or `podium check --system S --benchmark B`: status 1 where anything is found."""
    from podium.verdict import rounds

    if args.tree is None or args.config is not DEFAULT_CONFIG or (args.system and args.benchmark):
        return _main_configured(args)
    return _main_tree(args, args.tree, rounds.of(args, args.tree), None)


def _main_configured(args: argparse.Namespace) -> int:
    """What a config is asked for: a result of its work root, the tree that it packs, or its pinned checker."""
    from podium import config as configuration
    from podium import plan
    from podium.verdict import rounds
    from podium.verdict.official import unmodified

    config = configuration.load(args.config)
    if args.system and args.benchmark:
        return _main_result(args, config, plan.of(config, args.system, args.benchmark))
    if args.tree is None and config.inhouse:
        return _main_inhouse(args, config)
    unmodified.version(config.checker_version)
    if args.tree is None:
        return _main_tree(args, plan.tree_folder(config), args.round or config.submission.round, config.root)
    return _main_tree(args, args.tree, rounds.of(args, args.tree), config.root)


def _main_tree(args: argparse.Namespace, path: Path, round: str, root: Path | None) -> int:
    """A tree or a part of one; what is known of its logs is kept below the work root, if there is one."""
    from podium.verdict.answer import table
    from podium.verdict.reading import cache

    seen = _look(path, round, args.submitter, root)
    answer = seen.answer
    if args.checker:
        answer["beside"] = _beside(args.checker, seen, round, cache.place(root).parent)
    if args.verdict:
        files.write_json(args.verdict, answer)
    if args.junit:
        from podium.verdict.answer import junit

        files.write_text(args.junit, junit.report(seen.submissions))
    good = answer["verdict"] == "compliant"
    if args.json:
        json.dump(answer, sys.stdout, indent=1)
        print()
        return GOOD if good else FINDINGS
    print(table.table(seen.submissions, answer.get("beside", ())))
    if not good:
        raise Findings(
            f"{path} is not compliant with {round}",
            f"what the rules of {round} ask for ({answer['checker']})",
            table.count(seen.submissions),
            "mend what is named above and run the same command again; `podium explain RULE` says more of a rule",
        )
    print(f"\ncheck {path}: compliant with {round} ({answer['checker']}), {table.count(seen.submissions)}")
    return GOOD


def _main_inhouse(args: argparse.Namespace, config: Config) -> int:
    """The packed tree of benchmarks of one's own, which the official tools know nothing of."""
    from podium.verdict import inhouse

    answer = inhouse.check_tree(config)
    if args.verdict:
        files.write_json(args.verdict, answer)
    good = answer["verdict"] == "compliant"
    if args.json:
        print(json.dumps(answer, indent=1))
        return GOOD if good else FINDINGS
    if not good:
        found = [f"{item['file']}: expected {item['expected']}, found {item['found']}" for item in answer["findings"]]
        command = f"podium pack --config {args.config}"
        raise Findings(f"{answer['tree']} breaks {inhouse.RULES}", "none broken", "\n    ".join(["", *found]), command)
    print(f"check {answer['tree']}: compliant with {inhouse.RULES} ({answer['checker']}); no MLPerf result")
    return GOOD


def _main_result(args: argparse.Namespace, config: Config, wanted: Plan) -> int:
    answer = check_result(config, wanted)
    thing = f"{args.system}/{args.benchmark}"
    good = answer["verdict"] == "compliant"
    if args.json:
        print(json.dumps(answer, indent=1))
        return GOOD if good else FINDINGS
    if not good:
        found = [*answer["findings"], *answer["official"]["messages"]]
        expected = f"what {answer['round']} asks for"
        command = f"podium score --config {args.config}"
        raise Findings(f"{thing} is not compliant", expected, "\n    ".join(["", *found]), command)
    summary = f"{len(answer['counted'])} runs counted ({answer['choice']})"
    print(f"check {thing}: compliant with {answer['round']}, {summary}")
    return GOOD
