"""`podium status`: the readiness board, for a terminal, for machines, and again and again while runs go on."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from podium import config as configuration
from podium.config import Config
from podium.report.board import Board, Row, board
from podium.verdict.score.score import label

COLOURS = {"ready": 32, "paperwork": 36, "short": 33, "invalid": 31}  # ANSI


def table(config: Config, found: Board, colours: bool = False) -> str:
    """The board for a terminal: a line for each result, why, the clock, what was made, what to do next."""
    heads = ("system", "benchmark", "runs", "counted", "busy", "failed", "missed", "RCP", "minutes", "open", "state")
    lines = [heads, *(_cells(row) for row in found.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    shown = []
    for index, line in enumerate(lines):
        cells = [
            cell.ljust(width) if column in (0, 1, 10) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        if colours and index:
            word = found.rows[index - 1].word
            cells[-1] = f"\033[{COLOURS[word]}m{cells[-1]}\033[0m"
        shown.append("  ".join(cells).rstrip())
    shown += [f"({label(config)})", ""]
    said = reasons(found.rows)
    shown += [f"{names}: {text}" for names, text in said] + ([""] if said else [])
    shown += [f"{'clock':9} {clock(found)}"]
    shown += [f"{name:9} {path}" for name, path in found.made.items()]
    shown += [f"{'inspected':9} {found.inspection}"]
    return "\n".join([*shown, *(f"{'next':9} {command}" for command in found.next)])


def _cells(row: Row) -> tuple[str, ...]:
    busy = f"{len(row.running)}+{len(row.queued)}" if row.running or row.queued else "-"
    minutes = "-" if row.minutes is None else f"{row.minutes:.4f}"
    if row.minutes is None and row.forecast and row.forecast["score_minutes"]:
        minutes = f"~{row.forecast['score_minutes']['middle']:.4f}"
    return (
        row.system,
        row.benchmark,
        f"{row.done}/{row.needed}",
        str(row.counted),
        busy,
        str(row.failed),
        str(row.not_converged),
        row.rcp,
        minutes,
        str(len(row.open)),
        row.word,
    )


def reasons(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Why results are not ready: the results, and what is said of them; the same sentence once for all of them."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for text in row.why:
            said.setdefault(text, []).append(f"{row.system}/{row.benchmark}")
        if row.running or row.queued:
            jobs = [*(f"{id} runs" for id in row.running), *(f"{id} waits" for id in row.queued)]
            said.setdefault("jobs: " + ", ".join(jobs), []).append(f"{row.system}/{row.benchmark}")
        if row.forecast and (chance := row.forecast["probability"]["both"]) is not None:
            said.setdefault(f"forecast: valid with {chance:.0%}", []).append(f"{row.system}/{row.benchmark}")
    return [(_few(names), text) for text, names in said.items()]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def clock(found: Board) -> str:
    """What the missing runs take, and whether they end before the deadline."""
    needed = "unknown" if found.hours_needed is None else _duration(found.hours_needed)
    text = f"the missing runs take about {needed}" if found.hours_needed else "no run is missing"
    if found.hours_left is None:
        return f"{text}; no deadline is set (package.deadline)"
    if found.hours_left <= 0:
        return f"{text}; the deadline passed {_duration(-found.hours_left)} ago"
    left = f"{_duration(found.hours_left)} are left"
    if not found.hours_needed:
        return f"{text}; {left}"
    return f"{text}, {left}: they {'fit' if found.fits else 'do NOT fit'}"


def _duration(hours: float) -> str:
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def as_json(found: Board) -> str:
    value = {**asdict(found), "fits": found.fits}
    return json.dumps(value, indent=1)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=10.0,
        metavar="SECONDS",
        help="show it anew every 10 (or SECONDS) seconds",
    )
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium status`."""
    config = configuration.load(args.config)
    terminal = sys.stdout.isatty()
    while True:
        found = board(config)
        text = as_json(found) if args.json else table(config, found, terminal)
        print(f"\033[H\033[2J{text}" if args.watch and terminal else text, flush=True)
        if not args.watch:
            return 0
        time.sleep(args.watch)
