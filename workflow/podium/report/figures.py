"""The report's table and plots as files of their own, for `snakemake --report`."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from podium import files
from podium.config import Config
from podium.package import sources
from podium.plan import Plan
from podium.report import board, html, plot, runs
from podium.report.board import Board
from podium.verdict.score.score import label

# As the page's style sheet has it, in light colours.
STYLE = (
    "svg{font-family:system-ui,sans-serif;background:#fff}text{fill:#5b6677;font-size:12px}text.name{fill:#182030}"
    ".grid{stroke:#e1e5ea}.run{color:#2f6fde}.run.dropped{color:#d9822b}.run.other{color:#98a2b3}"
    ".run polyline{fill:none;stroke:currentColor;stroke-width:1.3;opacity:.55}.run circle{fill:currentColor}"
    ".band{fill:#2e9e6b;opacity:.18}.target{stroke:#2e9e6b;stroke-width:1.5;stroke-dasharray:5 4}"
    ".p0{fill:#98a2b3}.p1{fill:#2f6fde}.p2{fill:#d9822b}"
    ".span{fill:#2f6fde}.span.not_converged{fill:#d9822b}.span.failed,.span.cancelled{fill:#b42318}"
)
HEADS = (
    "system",
    "benchmark",
    "state",
    "runs",
    "needed",
    "counted",
    "minutes",
    "RCP",
    "failed",
    "missed",
    "open fields",
)


def folder(config: Config) -> Path:
    return config.root / "reports" / "figures"


def board_file(config: Config) -> Path:
    return folder(config) / "board.html"


def timeline_file(config: Config) -> Path:
    return folder(config) / "timeline.svg"


def plot_file(config: Config, item: Plan, what: str) -> Path:
    """`what` is convergence or time."""
    return folder(config) / f"{item.system.name}-{item.benchmark}-{what}.svg"


def write(config: Config) -> None:
    """Write all of them, from the work root's files."""
    found = sources.sources(config)
    told = {source.name: runs.attempts(source) for source in found}
    files.write_text(board_file(config), table(config, board.board(config)))
    for source in found:
        made = html.result(source, told[source.name])
        for what, svg in (("convergence", made["convergence"]), ("time", made["split"])):
            files.write_text(plot_file(config, source.item, what), standalone(svg))
    files.write_text(timeline_file(config), standalone(plot.timeline(*html.timeline(found, told))))


def standalone(svg: str) -> str:
    """A plot as an SVG file: with its style in it, and the words of each mark as titles, for there is no script."""
    if not svg.startswith("<svg"):
        words = re.sub(r"<[^>]*>", "", svg)
        svg = f'<svg viewBox="0 0 460 60"><text x="10" y="34">{words}</text></svg>'
    box = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    svg = svg.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{box[1]}" height="{box[2]}"', 1)
    svg = re.sub(r' tabindex="-1" data-tip="([^"]*)"/>', r"><title>\1</title></XX>", svg)
    svg = re.sub(r"<(circle|rect|line)([^<]*)><title>([^<]*)</title></XX>", r"<\1\2><title>\3</title></\1>", svg)
    svg = re.sub(r' tabindex="-1" data-tip="([^"]*)">', r"><title>\1</title>", svg)
    return svg.replace(">", f"><style>{STYLE}</style>", 1)


def table(config: Config, found: Board) -> str:
    """The board and the scores as one HTML table."""
    lines = []
    for row in found.rows:
        minutes = "–" if row.minutes is None else f"{row.minutes:.4f}"
        cells = (row.system, row.benchmark, row.word, row.done, row.needed, row.counted, minutes, row.rcp)
        cells += (row.failed, row.not_converged, ", ".join(row.open) or "none")
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    style = "body{font:15px system-ui,sans-serif;margin:1rem}td,th{padding:.3rem .7rem;text-align:left}"
    head = f'<head><meta charset="utf-8"><title>results</title><style>{style}</style></head>'
    body = f"<table><tr>{heads}</tr>{''.join(lines)}</table><p>{escape(label(config))}</p>"
    return f'<!doctype html><html lang="en">{head}<body>{body}</body></html>\n'
