"""`podium reproduce SOURCE`: another submitter's result, from its own container, on my nodes, with a verdict.

    podium reproduce SOURCE --list            what the tree holds
    podium reproduce SOURCE --plan            how each result is run again, or why it cannot be
    podium reproduce SOURCE --submitter S --system Y --benchmark B             run it and compare
    podium reproduce SOURCE --submitter S --system Y --benchmark B --mine DIR  compare with logs that are there

Status 0: reproduced or faster; 1: slower or not comparable; 2: bad input, a plan that is refused; 3: the environment.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium import config as configuration
from podium import files
from podium.errors import FINDINGS, GOOD, BadInput

if TYPE_CHECKING:  # the rest is imported where it is used, so that --help is quick
    from podium.config import Config
    from podium.reproduce.compare import Comparison
    from podium.reproduce.discover import Published, Tree
    from podium.reproduce.hardware import Mine
    from podium.reproduce.plan import Known, Plan


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
    parser.add_argument("--image", default="", metavar="REF", help="this image in place of theirs")
    parser.add_argument("--nodes", type=int, help="with --gpus: which batch sizes work on so many nodes")
    parser.add_argument("--gpus", type=int, help="accelerators of each of them")
    parser.add_argument("--runs", type=int, metavar="K", help="how many runs (default: reproduce.runs)")
    parser.add_argument("--mine", type=Path, metavar="DIR", help="compare with the logs in DIR instead of running")
    parser.add_argument("--yes", action="store_true", help="the warning page was read: run foreign code unasked")
    rounds.argument(parser)


def main(args: argparse.Namespace) -> int:
    from podium.reproduce import discover, hardware, known, plan, replan, source, text
    from podium.verdict import rounds

    config = configuration.load(args.config)
    if args.runs is not None and args.runs < 1:
        raise BadInput("--runs is too small", "1 or more", str(args.runs), "--runs 3")
    if (args.nodes is None) != (args.gpus is None) or min(
        args.nodes or 1, 1 if args.gpus is None else args.gpus + 1
    ) < 1:
        raise BadInput("half a size", "--nodes N and --gpus G, at least 1 and 0", "another", "--nodes 1 --gpus 4")
    with source.opened(args.source, args.submitter, args.system, args.benchmark) as root:
        tree = only(discover.discover(root, (args.submitter,) if args.submitter else ()), args)
        round = rounds.of(
            args, root if args.round is None and Path(args.source).is_dir() is False else Path(args.source)
        )
        facts = known.known(tree, round)
        me = hardware.mine(config, args.on, args.runs, args.image)
        if args.list:
            answer = {"source": args.source, "round": round, **text.listed(tree, facts, _chosen(tree, facts))}
            return _show(args, answer, lambda: text.table(answer))
        if args.plan:
            found = plan.plans(tree, facts, me)
            answer = {"source": args.source, "round": round, "plans": [item.as_json() for item in found]}
            files.write_json(config.root / "reproduce" / "plan.json", answer)
            return _show(args, answer, lambda: text.plans(found))
        published = one(tree, args)
        if args.mine:
            return _tell(args, config, _compared(config, tree, published, round, me, _logs(args.mine)))
        made = _plan(tree, published, facts, me)
        if args.nodes is not None:
            sized = replan.replan(made, round, args.nodes, args.gpus)
            _show(args, sized.as_json(), lambda: text.replanned(sized))
            return FINDINGS if sized.refused else GOOD
        return _tell(args, config, _reproduced(args, config, tree, published, made, round, me))


def only(tree: Tree, args: argparse.Namespace) -> Tree:
    """The part of a tree that is asked for; raises BadInput where there is no such part."""
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
    if not results and (args.system or args.benchmark) and not (code and args.plan and not args.system):
        there = sorted({f"{item.result.system}/{item.result.benchmark}" for item in tree.results})
        raise BadInput(
            f"no result {args.system or '*'}/{args.benchmark or '*'} in {args.source}",
            "one of " + ", ".join(there[:20]) + (" …" if len(there) > 20 else ""),
            "a missing result folder, or another name",
            f"podium reproduce {args.source} --list",
        )
    return discover.Tree(tree.root, code, results)


def one(tree: Tree, args: argparse.Namespace) -> Published:
    """The one result that is asked for; raises BadInput where it is several."""
    if len(tree.results) != 1:
        raise BadInput(
            "which result?",
            "one: --submitter S --system Y --benchmark B",
            f"{len(tree.results)} results",
            f"podium reproduce {args.source} --list",
        )
    return tree.results[0]


def _chosen(tree: Tree, facts: dict[str, Known]) -> dict[str, dict[str, str]]:
    from podium.reproduce import match

    found = {}
    for item in tree.results:
        choice = match.choose(item, tree.implementations, facts[item.result.name].batch_size)
        made = choice.implementation if choice else None
        found[item.result.name] = {
            "implementation": made.path if made else "",
            "style": made.style.name if made else "none",
            "config": choice.config if choice else "",
            "image": made.image.reference if made else "",
        }
    return found


def _plan(tree: Tree, published: Published, facts: dict[str, Known], me: Mine) -> Plan:
    from podium.reproduce import discover, plan

    return plan.plans(discover.Tree(tree.root, tree.implementations, (published,)), facts, me)[0]


def _reproduced(
    args: argparse.Namespace,
    config: Config,
    tree: Tree,
    published: Published,
    made: Plan,
    round: str,
    me: Mine,
) -> Comparison:
    from podium.reproduce import plan, run, warning

    item = next((item for item in tree.implementations if item.path == made.implementation), None)
    if item is None or me.system is None:
        raise BadInput(f"{published.result.name} cannot be run", "code", made.refused, "--plan says more")
    plan.write(made, run.home(config, made))
    run.check(made, item, me.system)
    text = warning.page(made, tree.root, item.code, me.system.engine, config.reproduce.network)
    warning.agreed(text, args.yes, run.home(config, made) / "warning.txt")
    logs = run.runs(config, me.system, made, item, tree.root)
    return _compared(config, tree, published, round, me, logs)


def _compared(config: Config, tree: Tree, published: Published, round: str, me: Mine, logs: list[Path]) -> Comparison:
    from podium.reproduce import compare
    from podium.verdict.reading import cache

    place = cache.place(config.root)
    theirs = cache.digests(published.result.logs, round, None if place.resolve().is_relative_to(tree.root) else place)
    mine = cache.digests(logs, round, place)
    name = me.system.name if me.system else "mine"
    return compare.compare(
        compare.Side(published.result.name, {log: theirs[log] for log in published.result.logs}, published.description),
        compare.Side(name, {log: mine[log] for log in logs}, me.description),
        published.result.benchmark,
        round,
        config.reproduce.margin,
        config.reproduce.confidence,
    )


def _logs(folder: Path) -> list[Path]:
    """The logs of a folder: result_*.txt, else *.log, else result.txt of the folders below."""
    for pattern in ("result_*.txt", "*.log", "*/result.txt"):
        if found := sorted(path for path in folder.glob(pattern) if path.is_file()):
            return found
    raise BadInput(f"no logs in {folder}", "result_*.txt, *.log or */result.txt", "nothing", f"ls {folder}")


def _tell(args: argparse.Namespace, config: Config, found: Comparison) -> int:
    from podium.reproduce import compare, page, text

    place = config.root / "reproduce" / found.theirs["name"]
    files.write_json(place / "comparison.json", found.as_json())
    files.write_text(place / "comparison.html", page.page(found))
    shown = {**found.as_json(), "page": str(place / "comparison.html")}
    _show(args, shown, lambda: f"{text.compared(found)}\n  page             {place / 'comparison.html'}")
    return GOOD if found.verdict in (compare.REPRODUCED, compare.FASTER) else FINDINGS


def _show(args: argparse.Namespace, answer: dict[str, Any], text: Callable[[], str]) -> int:
    if args.json:
        json.dump(answer, sys.stdout, indent=1)
        print()
    else:
        print(text())
    return GOOD
