"""`podium nightly`: a night run and judged; and what is done with the history of nights."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from podium import config as configuration
from podium import files
from podium.config import Config
from podium.errors import BadInput, PodiumError
from podium.nightly import bisect, history, imports, index, judge, night, page, show, tell
from podium.nightly.history import Mark
from podium.nightly.judge import Judgement
from podium.nightly.verdict import Bars


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)
    parser.add_argument("--night", metavar="DATE", help="which night (default: tonight)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit XML")
    verbs = parser.add_subparsers(dest="what", metavar="WHAT")

    def verb(name: str, help: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=help, description=help, allow_abbrev=False)
        one.add_argument("--config", type=Path, default=argparse.SUPPRESS, metavar="FILE", help="the config")
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answers as JSON")
        return one

    one = verb("show", "the verdict on a night, and every series' course; runs nothing")
    one.add_argument("series", nargs="*", metavar="SERIES", help="which series, like 'gpu-node/resnet/*'")
    one.add_argument("--night", default=argparse.SUPPRESS, metavar="DATE", help="as of that night (default: the last)")
    one.add_argument("--junit", type=Path, default=argparse.SUPPRESS, metavar="FILE")
    one = verb("mark", "say what is known of a night: nothing in the history is changed")
    one.add_argument("marked", metavar="NIGHT", help="a date like 2026-11-30")
    one.add_argument("kind", choices=(history.LEVEL, history.VOID, history.RENAMED))
    one.add_argument("text", help="what happened, for whoever reads it in a year")
    one.add_argument("--system", help="of this system only; for `renamed`: its new name")
    one.add_argument("--benchmark", help="of this benchmark only")
    one.add_argument("--was", metavar="SYSTEM", help="for `renamed`: the old name")
    one = verb("index", "bring the index up to date with the records")
    one.add_argument("--rebuild", action="store_true", help="make it from nothing")
    one = verb("import", "add runs that were made otherwise: results trees, or this config's own submission")
    one.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="a published tree, or a part of one")
    verb("page", "write the page with all trends")
    bisect.arguments(verb("bisect", "which image, driver or commit made training slower"))


def main(args: argparse.Namespace) -> int:
    """Status 1 where something is worse, 3 where runs of the night are missing."""
    config = configuration.load(args.config)
    if args.night is not None:
        history.night_name(args.night)
    actions = {
        None: _night,
        "show": _show,
        "mark": _mark,
        "index": _index,
        "import": _import,
        "page": _page,
        "bisect": bisect.main,
    }
    return actions[args.what](config, args)


def judged(config: Config, night: str | None = None, unwritten: Sequence[history.Record] = ()) -> Judgement:
    """The history of the config's work root, judged as of a night."""
    root = history.folder(config)
    found = index.with_records(index.refresh(root), unwritten)
    marks, problems = history.marks(root)
    bars = Bars(config.nightly.ignore_percent / 100, config.nightly.smallest_percent / 100)
    judgement = judge.judge(found, marks, night, bars)
    return replace(judgement, problems=(*judgement.problems, *problems))


def _night(config: Config, args: argparse.Namespace) -> int:
    night.check(config)
    known = index.refresh(history.folder(config)).nights()
    name, warning = (args.night, "") if args.night else night.tonight(known, datetime.date.today())
    spent = night.spend(config, name)
    missing, notes = spent.missing, [*filter(None, [warning]), *spent.notes]
    judgement = judged(config, name, spent.unwritten)
    judgement = replace(judgement, problems=(*judgement.problems, *notes))
    root = history.folder(config)
    told = tell.as_json(judgement, root, missing)
    status = told["status"]
    print(json.dumps(told, indent=1) if args.json else "\n".join(tell.summary(judgement, root, missing)))
    for write in (lambda: _write_junit(args, judgement, root, missing), lambda: page.write(config, judgement, missing)):
        try:
            write()
        except PodiumError as error:
            print(f"podium nightly: {error}", file=sys.stderr)
            status = status or error.code
    if config.nightly.webhook:
        try:
            tell.webhook(config.nightly.webhook, told)
        except PodiumError as error:
            print(f"podium nightly: {error}", file=sys.stderr)
            status = status or error.code
    return status


def _write_junit(args: argparse.Namespace, judgement: Judgement, root: Path, missing: Sequence[str]) -> None:
    if args.junit:
        files.write_text(args.junit, tell.junit(judgement, root, missing))


def _show(config: Config, args: argparse.Namespace) -> int:
    judgement = judged(config, args.night)
    if args.series:
        chosen = [v for v in judgement.verdicts if any(fnmatch.fnmatch(v.series.name, name) for name in args.series)]
        judgement = replace(judgement, verdicts=tuple(chosen))
    root = history.folder(config)
    _write_junit(args, judgement, root, ())
    if args.json:
        print(json.dumps(tell.as_json(judgement, root), indent=1))
    else:
        print("\n".join([*show.lines(judgement), *tell.summary(judgement, root)]))
    return tell.status(judgement)


def _mark(config: Config, args: argparse.Namespace) -> int:
    if (args.kind == history.RENAMED) != (args.was is not None) or (args.was and not args.system):
        raise BadInput(
            "a renamed system has two names",
            "podium nightly mark NIGHT renamed TEXT --was OLD --system NEW",
            f"{args.kind} with --was {args.was} --system {args.system}",
            "podium nightly mark --help",
        )
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    night_of = history.night_name(args.marked)
    mark = Mark(args.kind, night_of, args.system, args.benchmark, args.was, args.text, now)
    path = history.write_mark(history.folder(config), mark)
    print(json.dumps({"mark": str(path)}) if args.json else f"mark: {args.kind} from {night_of} on, in {path}")
    return 0


def _index(config: Config, args: argparse.Namespace) -> int:
    found = index.refresh(history.folder(config), anew=args.rebuild)
    if args.json:
        print(json.dumps({"runs": len(found.runs), "nights": len(found.nights()), "problems": found.problems}))
    else:
        print(f"index: {len(found.runs)} runs of {len(found.nights())} nights")
        print("".join(f"problem: {what}\n" for what in found.problems), end="")
    return 1 if found.problems else 0


def _import(config: Config, args: argparse.Namespace) -> int:
    added, passed = imports.add(config, args.trees)
    if args.json:
        print(json.dumps({"added": added, "passed_over": passed}))
    else:
        print(f"import: {added} runs in the history")
        print("".join(f"passed over: {what}\n" for what in passed), end="")
    return 1 if passed else 0


def _page(config: Config, args: argparse.Namespace) -> int:
    path = page.write(config, judged(config, args.night))
    print(json.dumps({"page": str(path)}) if args.json else f"page: {path}")
    return 0
