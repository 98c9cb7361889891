"""`podium nightly bisect`: which image, commit or driver made training slower, with as many runs as the noise asks for.

What was measured is kept in `<root>/nightly/bisect/<name>/state.json`; the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from podium import files, plan
from podium.config import Config, NightlyResult
from podium.errors import BadInput, PodiumError
from podium.nightly import candidates, history, measure, night, search
from podium.nightly.candidates import Candidates
from podium.nightly.measure import METRICS
from podium.nightly.search import Answer
from podium.plan import Plan
from podium.runs import ledger
from podium.runs.run import run

MOST = 40  # runs of one candidate
STATE = "state.json"


def bisect(config: Config, one: NightlyResult, among: Candidates, metric: str, most: int) -> tuple[Answer, Path]:
    """Search until there is an answer; returns it, and the file with all that was measured.

    Raises PodiumError where an end cannot be prepared; any other candidate that cannot is passed over.
    """
    wanted = night.cut(plan.of(config, one.system, one.benchmark), replace(one, runs=most))
    question = {"system": one.system, "benchmark": one.benchmark, "config": night.label(wanted, one), "metric": metric}
    question |= asdict(among)
    folder = history.folder(config) / "bisect" / files.hash_json(question)[:12]
    with files.locked(folder / ".lock"):
        return _search(config, wanted, among, question, folder, most), folder / STATE


def _search(
    config: Config, wanted: Plan, among: Candidates, question: dict[str, Any], folder: Path, most: int
) -> Answer:
    path = folder / STATE
    state = files.read_json(path) if path.exists() else {"question": question, "measured": [], "selected": None}
    sign, last = METRICS[question["metric"]].sign, len(among.names) - 1
    while True:
        values: dict[int, list[float | None]] = {}
        for item in state["measured"]:
            value = item["value"]
            values.setdefault(item["candidate"], []).append(None if value is None else sign * math.log(value))
        found = search.step(len(among.names), values, config.nightly.ignore_percent / 100, most)
        if isinstance(found, Answer):
            files.write_json(path, {**state, "answer": asdict(found)})
            return found
        number = found.candidate
        runs = len(values.get(number, []))
        try:
            if among.kind == "select" and state["selected"] != number:
                # Written before: what is half selected when this process dies is selected again.
                state["selected"] = None
                files.write_json(path, state)
                candidates.select(among, number)
                state["selected"] = number
            own, ready = candidates.prepare(config, wanted, among, number, folder)
            value, note = _run(own, ready, runs, question["metric"])
        except PodiumError as error:
            if number in (0, last):
                raise
            value, note = None, str(error)
        state["measured"].append({"candidate": number, "run": runs, "value": value, "note": note})
        files.write_json(path, state)
        shown = "failed" if value is None else f"{value:.6g} {METRICS[question['metric']].unit}"
        print(f"bisect {among.names[number]} run {runs + 1}: {shown} ({found.why})", file=sys.stderr, flush=True)


def _run(own: Config, wanted: Plan, number: int, metric: str) -> tuple[float | None, str]:
    """One run of a candidate: its measure, or why there is none."""
    folder = plan.result_folder(own, wanted)
    note = ""
    try:
        attempt = run(own, wanted, number)
    except PodiumError as error:
        ended = [item for item in ledger.attempts(folder) if item.wanted == number and item.record]
        if not ended:
            raise
        attempt, note = ended[-1], str(error)
    home = folder / str(attempt.number)
    value = measure.measure(home / "result.txt", home / "logs" / measure.STEPS).values.get(metric)
    return value, note if value is None else ""


def told(answer: Answer, among: Candidates, metric: str, measured: list[dict[str, Any]]) -> list[str]:
    """The answer in words, with the evidence: every candidate that was measured, its mean and its runs."""
    names, worse = among.names, METRICS[metric].worse
    size = f"{answer.percent:+.1f} % [{answer.low:+.1f}, {answer.high:+.1f}]"
    ends = f"{names[answer.last_good]} and {names[answer.first_bad]}"
    lines = {
        search.FIRST_BAD: f"first bad: {names[answer.first_bad]} is {worse} than {names[answer.last_good]} by {size}",
        search.SAME: f"no difference: {names[-1]} against {names[0]}: {size}; a change that matters is ruled out",
        search.NOISE: f"noise forbids an answer between {ends} ({size}): about {answer.runs} runs of each would allow "
        f"one (--most {answer.runs})",
        search.AMONG: f"the first bad one is among {', '.join(names[answer.last_good + 1 : answer.first_bad + 1])}: "
        "those between could not be run",
    }
    found = [lines[answer.kind]]
    if answer.share is not None:
        found[0] += f", {100 * answer.share:.0f} % of the whole change"
        if answer.share < 0.7:
            found.append("the rest of the change is elsewhere: bisect again on both sides of it")
    for number, name in enumerate(names):
        values = [item["value"] for item in measured if item["candidate"] == number]
        good = [value for value in values if value is not None]
        if values:
            mean = f"{sum(good) / len(good):.6g} {METRICS[metric].unit}" if good else "no value"
            failed = f", {len(values) - len(good)} failed" if len(good) < len(values) else ""
            found.append(f"  {name}: {mean} over {len(good)} runs{failed}")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    parser.add_argument("--benchmark", required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--images", nargs="+", metavar="FILE", help="image.json files, the good one first")
    kind.add_argument("--commits", action="store_true", help="commits of the implementation, from --good to --bad")
    kind.add_argument("--candidates", nargs="+", metavar="NAME", help="names for --select, the good one first")
    parser.add_argument("--select", metavar="COMMAND", help="installs or selects the driver, or what it is, named $1")
    parser.add_argument("--good", metavar="A", help="the good end (default: the first)")
    parser.add_argument("--bad", metavar="B", help="the bad end (default: the last)")
    parser.add_argument("--metric", choices=tuple(METRICS), default="step")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"runs of one candidate (default {MOST})")


def main(config: Config, args: argparse.Namespace) -> int:
    """Status 1 with a first bad one, 0 without a difference, 3 where noise or failures forbid an answer."""
    one = _how(config, args)
    among = _among(config, one, args)
    answer, path = bisect(config, one, among, args.metric, args.most)
    measured = files.read_json(path)["measured"]
    if args.json:
        names = {"last_good": among.names[answer.last_good], "first_bad": among.names[answer.first_bad]}
        print(json.dumps({**asdict(answer), **names, "measured": measured, "state": str(path)}, indent=1))
    else:
        print("\n".join([*told(answer, among, args.metric, measured), f"evidence: {path}"]))
    return {search.FIRST_BAD: 1, search.SAME: 0}.get(answer.kind, 3)


def _how(config: Config, args: argparse.Namespace) -> NightlyResult:
    """How runs are cut: as the nights' are, to the target where no night runs the benchmark."""
    plan.of(config, args.system, args.benchmark)
    wanted = (args.system, args.benchmark)
    nights = [one for one in config.nightly.results if (one.system, one.benchmark) == wanted]
    return nights[0] if nights else NightlyResult(*wanted, 1, None, None)


def _among(config: Config, one: NightlyResult, args: argparse.Namespace) -> Candidates:
    if (args.candidates is None) != (args.select is None):
        raise BadInput(
            "names need a command", "--candidates with --select", "one of them", "podium nightly bisect --help"
        )
    if args.commits:
        if args.good is None or args.bad is None:
            raise BadInput("which commits?", "--good and --bad", "not both", "podium nightly bisect --help")
        implementation = plan.of(config, one.system, one.benchmark).result.implementation
        return candidates.of_commits(implementation, args.good, args.bad)
    names = candidates.between(args.images or args.candidates, args.good, args.bad)
    return Candidates("images" if args.images else "select", names, args.select)
