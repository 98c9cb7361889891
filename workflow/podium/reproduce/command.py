"""`podium reproduce SOURCE`: another submitter's result, from its own container, on my nodes, with a verdict.

podium reproduce SOURCE --list            what the tree holds
podium reproduce SOURCE --plan            how each result is run again, or why it cannot be
podium reproduce SOURCE --submitter S --system Y --benchmark B    run it and compare
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium import config as configuration

if TYPE_CHECKING:  # the rest is imported where it is used, so that --help is quick
    from podium.reproduce.discover import Tree
    from podium.reproduce.plan import Known


def arguments(parser: argparse.ArgumentParser) -> None:
    from podium.verdict import rounds

    parser.add_argument("source", help="a results tree: a folder, an archive of one, or a git repository")
    parser.add_argument("--list", action="store_true", help="what the tree holds; nothing is executed")
    parser.add_argument(
        "--plan", action="store_true", help="what it takes to run each again; configs are sourced shut in"
    )
    parser.add_argument("--submitter", help="only this one")
    parser.add_argument("--system", help="only this published system")
    parser.add_argument("--benchmark", help="only this one")
    parser.add_argument("--on", metavar="SYSTEM", help="the system of the config to run on (default: reproduce.system)")
    parser.add_argument("--runs", type=int, metavar="K", help="how many runs (default: reproduce.runs)")
    rounds.argument(parser)


def main(args: argparse.Namespace) -> int:
    from podium.reproduce import discover, known, plan, source
    from podium.verdict import rounds

    config = configuration.load(args.config)
    with source.opened(args.source, args.submitter, args.system, args.benchmark) as root:
        tree = _only(discover.discover(root, (args.submitter,) if args.submitter else ()), args)
        round = rounds.of(args, Path(args.source))
        facts = known.known(tree, round)
        if args.list:
            return _show(args, _listed(tree, facts, args.source, round))
        me = plan.mine(config, args.on, args.runs)
        found = plan.plans(tree, facts, me)
        if args.plan:
            return _show(args, {"source": args.source, "round": round, "plans": [item.as_json() for item in found]})
    return 0


def _only(tree: Tree, args: argparse.Namespace) -> Tree:
    from podium.reproduce import discover

    results = tuple(
        item
        for item in tree.results
        if args.system in (None, item.result.system) and args.benchmark in (None, item.result.benchmark)
    )
    wanted = (args.benchmark, discover.benchmark(args.benchmark or ""))
    code = tuple(
        item
        for item in tree.implementations
        if args.benchmark is None or item.benchmark in wanted or discover.benchmark(item.benchmark) in wanted
    )
    return discover.Tree(tree.root, code, results)


def _listed(tree: Tree, facts: dict[str, Known], source: str, round: str) -> dict[str, Any]:
    return {"source": source, "round": round}


def _show(args: argparse.Namespace, answer: dict[str, Any]) -> int:
    json.dump(answer, sys.stdout, indent=1)
    print()
    return 0
