"""`podium score`: the olympic score of every result, from run_start to run_stop of the counted runs.

Of a results tree also the RCP scaling (`score_tree`); of the work root what the verdicts hold, into reports/scores.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.verdict import kept
from podium.verdict.score.olympic import Score

if TYPE_CHECKING:  # the verdict's code is imported where it is used, so that --help is quick
    from podium.verdict.score.rows import Row

LABEL = "unverified: not verified by MLCommons Association"
INHOUSE_LABEL = "in-house benchmarks: no MLPerf results, and not to be compared with any"
DEMO_LABEL = "demo: scaled-down models on generated data, not a benchmark result"


def rows(config: Config) -> list[dict[str, object]]:
    """One row a result, from its verdict; a result without one has no score and says so."""
    found = []
    for item in plan.plans(config):
        row: dict[str, object] = {"system": item.system.name, "benchmark": item.benchmark, "required": item.required}
        verdict = kept.read(config, item)
        if verdict is None:
            found.append({**row, **asdict(Score(None, (), "not checked yet")), "counted": 0, "verdict": "unknown"})
            continue
        found.append({**row, **verdict["score"], "counted": len(verdict["counted"]), "verdict": verdict["verdict"]})
    return found


def label(config: Config) -> str:
    """What must stand beside every figure that MLCommons has not published."""
    known = INHOUSE_LABEL if config.inhouse else LABEL
    return f"{DEMO_LABEL}; {known}" if config.submission.demo else known


def heading(config: Config) -> str:
    """What results of a config are of, for a title; MLPerf's name stands on nothing that is not MLPerf's."""
    of = config.submission
    return f"{of.org}: " + (
        "in-house benchmarks" if config.inhouse else f"MLPerf Training {of.round}, {of.division} division"
    )


def table(config: Config, found: Sequence[dict[str, object]]) -> str:
    """The scores for a terminal."""
    lines = [f"{'system':16} {'benchmark':12} {'runs':>7} {'minutes':>10}  verdict"]
    for row in found:
        minutes = "-" if row["minutes"] is None else f"{row['minutes']:.4f}"
        runs = f"{row['counted']}/{row['required']}"
        lines.append(
            f"{row['system']:16} {row['benchmark']:12} {runs:>7} {minutes:>10}  {row['verdict']} ({row['why']})"
        )
    return "\n".join([*lines, f"({label(config)})"])


def as_csv(found: Sequence[dict[str, object]]) -> str:
    """The scores as CSV; several values in one field are separated by semicolons."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]) if found else [], lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: ";".join(map(str, v)) if isinstance(v, (tuple, list)) else v for name, v in row.items()})
    return text.getvalue()


def arguments(parser: argparse.ArgumentParser) -> None:
    from podium.verdict import rounds

    parser.add_argument(
        "tree",
        nargs="?",
        type=Path,
        help="a round, a submission, a system, a result (default: the work root's results)",
    )
    rounds.argument(parser)
    parser.add_argument("--submitter", action="append", default=[], help="of a round, only this one; can be repeated")
    parser.add_argument("--csv", action="store_true", help="the scores of a tree as CSV on standard output")


def main(args: argparse.Namespace) -> int:
    """`podium score [TREE]`: prints the table; without a tree it writes reports/scores.{json,csv} too."""
    if args.tree is not None:
        return _main_tree(args)
    config = configuration.load(args.config)
    found = rows(config)
    answer = {"label": label(config), "round": config.submission.round, "results": found}
    files.write_json(config.root / "reports" / "scores.json", answer)
    files.write_text(config.root / "reports" / "scores.csv", as_csv(found))
    print(_shown(args, answer, lambda: table(config, found)))
    return 0


def _main_tree(args: argparse.Namespace) -> int:
    from podium.verdict import rounds, tree
    from podium.verdict.score.rows import scores

    round = rounds.of(args, args.tree)
    scored = scores(tree.read(args.tree, tuple(args.submitter)), round)
    found = [asdict(row) for row in scored]
    answer = {"label": LABEL, "tree": str(args.tree), "round": round, "results": found}
    print(_shown(args, answer, lambda: _tree_table(scored, round)))
    return 0


def _shown(args: argparse.Namespace, answer: dict[str, Any], text: Callable[[], str]) -> str:
    if args.json:
        return json.dumps(answer, indent=1)
    return as_csv(answer["results"]).rstrip("\n") if args.csv else text()


def _tree_table(scored: Sequence[Row], round: str) -> str:
    """The scores of a tree for a terminal: minutes raw, by the official tools, scaled, as published."""
    lines = [f"{'raw':>10} {'official':>10} {'scaling':>9} {'scaled':>10} {'published':>10}  result"]
    for row in scored:
        minutes = [row.raw_minutes, row.official_minutes, row.scaled_minutes, row.published_minutes]
        raw, official, scaled, published = (f"{item:.4f}" if item is not None else "-" for item in minutes)
        kept = "" if row.published_scaling is None else f" (scaling.json {row.published_scaling:.6f})"
        name = f"{row.submitter}/{row.system}/{row.benchmark}"
        lines.append(f"{raw:>10} {official:>10} {row.scaling:9.6f} {scaled:>10} {published:>10}  {name}{kept}")
        lines.append(f"{'':55}{row.why}; {row.norm}")
    return "\n".join([*lines, f"(minutes, round {round}; {LABEL})"])
