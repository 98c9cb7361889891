"""`podium report`: one self-contained page, with the board, the scores and the convergence of every run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.plan import Plan
from podium.report import board, plot
from podium.runs import ledger
from podium.verdict import kept
from podium.verdict.reading import logs
from podium.verdict.score.score import heading, label


def page(config: Config) -> str:
    """The page as HTML; it reads only the work root and says what is missing there."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    results = [_result(config, item) for item in plan.plans(config)]
    systems = {item.system.name: _system(config, item.system.name) for item in plan.plans(config)}
    return environment.get_template("page.html.j2").render(
        heading=heading(config), label=label(config), board=board.board(config), results=results, systems=systems
    )


def _system(config: Config, name: str) -> dict[str, str]:
    path = plan.system_file(config, name)
    return {key: value for key, value in files.read_json(path).items() if value} if path.exists() else {}


def _result(config: Config, item: Plan) -> dict[str, Any]:
    """One benchmark's section: its verdict, a row a run, the plot."""
    verdict = kept.read(config, item)
    counted = set(verdict["counted"]) if verdict else set()
    dropped = {verdict["counted"][index] for index in verdict["score"]["dropped"]} if verdict else set()
    rows, series = [], []
    for attempt in ledger.current(ledger.attempts(plan.result_folder(config, item))):
        log = plan.result_folder(config, item) / str(attempt.number) / "result.txt"
        run = logs.read(log, item.task.key) if log.exists() else logs.summarise([])
        points = tuple((evaluation.epoch, evaluation.value) for evaluation in run.evaluations)
        series.append(plot.Line(f"run {attempt.number}", points, run.converged))
        init = None if run.started is None or run.init_started is None else (run.started - run.init_started) / 1000
        rows.append(
            {
                "attempt": attempt.number,
                "outcome": attempt.outcome,
                "seed": attempt.seed,
                "init": init,
                "seconds": None if run.minutes is None else run.minutes * 60,
                "epoch": points[-1][0] if points else None,
                "quality": points[-1][1] if points else None,
                "use": _use(attempt.number, counted, dropped),
            }
        )
    unit = f"{item.task.unit}s"
    return {
        "system": item.system.name,
        "benchmark": item.benchmark,
        "quality": item.task.quality,
        "unit": unit,
        "verdict": verdict,
        "rows": rows,
        "plot": plot.lines(series, unit, item.task.quality),
    }


def _use(attempt: int, counted: set[int], dropped: set[int]) -> str:
    if attempt in dropped:
        return "counted, dropped as fastest or slowest"
    return "counted" if attempt in counted else "not counted"


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium report`: writes reports/index.html."""
    config = configuration.load(args.config)
    path = config.root / "reports" / "index.html"
    files.write_text(path, page(config))
    print(f'{{"report": "{path}"}}' if args.json else f"report: {path}")
    return 0
