"""`podium status`: the readiness board, from the files of the work root alone; nothing is written.

One row a result and one word for where it stands: `missing`, `short`, `invalid` or `ready`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.package.archive import archive_file, checked_file, receipt_file
from podium.plan import Plan
from podium.runs import ledger
from podium.verdict import kept
from podium.verdict.score.score import label


@dataclass(frozen=True)
class Row:
    """Where one result stands; `minutes` is its score, None while it has none."""

    system: str
    benchmark: str
    launched: int
    running: int
    finished: int
    failed: int
    not_converged: int
    required: int
    data: bool
    image: bool
    word: str
    minutes: float | None
    next: str


def board(config: Config) -> list[Row]:
    """A row for every result of the config."""
    return [_row(config, item) for item in plan.plans(config)]


def _row(config: Config, item: Plan) -> Row:
    attempts = ledger.current(ledger.attempts(plan.result_folder(config, item)))
    outcomes = [attempt.outcome for attempt in attempts]
    verdict = kept.read(config, item)
    finished = sum(attempt.countable for attempt in attempts)
    word, following = _word(config, item, finished, verdict)
    return Row(
        system=item.system.name,
        benchmark=item.benchmark,
        launched=len(attempts),
        running=outcomes.count("open"),
        finished=finished,
        failed=outcomes.count("failed") + outcomes.count("cancelled"),
        not_converged=outcomes.count("not_converged"),
        required=item.required,
        data=(plan.layout_folder(config, item.dataset) / "manifest.json").exists(),
        image=plan.image_file(config, item).exists(),
        word=word,
        minutes=verdict["score"]["minutes"] if verdict else None,
        next=following,
    )


def _word(config: Config, item: Plan, finished: int, verdict: dict | None) -> tuple[str, str]:
    workflow = f"snakemake --profile profiles/local --configfile {config.path}"
    check = kept.command(config, item)
    if finished == 0:
        return "missing", workflow
    if finished < item.required:
        return "short", workflow
    if verdict is None:
        return "short", check
    return ("ready", "") if verdict["verdict"] == "compliant" else ("invalid", check)


def table(config: Config, rows: Sequence[Row]) -> str:
    """The board for a terminal, what was made, and what to do next."""
    lines = [f"{'system':16} {'benchmark':10} {'runs':>7} {'failed':>6} {'not conv.':>9} {'minutes':>9}  state"]
    for row in rows:
        minutes = "-" if row.minutes is None else f"{row.minutes:.4f}"
        runs = f"{row.finished}/{row.required}"
        counts = f"{runs:>7} {row.failed:>6} {row.not_converged:>9}"
        lines.append(f"{row.system:16} {row.benchmark:10} {counts} {minutes:>9}  {row.word}")
    lines += [f"({label(config)})", ""]
    made = {
        "tree": plan.tree_folder(config),
        "archive": archive_file(config),
        "receipt": receipt_file(config),
        "report": config.root / "reports" / "index.html",
    }
    lines += [f"{name:8} {path}" for name, path in made.items() if path.exists()]
    if checked_file(config).exists():
        verdict = files.read_json(checked_file(config))
        lines.append(f"{'checked':8} {verdict['verdict']} with {verdict['round']} ({verdict['checker']})")
    following = list(dict.fromkeys(row.next for row in rows if row.next))
    lines += [f"{'next':8} {command}" for command in following or [_after(config)]]
    return "\n".join(lines)


def _after(config: Config) -> str:
    if config.submission.demo:
        return "copy config/examples/submission.yaml, describe your systems in it, and run it the same way (README.md)"
    if config.inhouse:
        return f"compare: {config.root / 'reports' / 'scores.json'} has the scores; they are no MLPerf results"
    return f"send {archive_file(config)} with its sha1 as the submission rules say"


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium status`."""
    config = configuration.load(args.config)
    rows = board(config)
    print(json.dumps([asdict(row) for row in rows], indent=1) if args.json else table(config, rows))
    return 0
