"""The page of all nights: verdicts, causes with what changed, slow nodes, every series' trend; one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium import files
from podium.config import Config
from podium.nightly import history, tell, trend
from podium.nightly.judge import Judgement
from podium.nightly.verdict import Verdict

LINKED = 10  # newest runs of a series that are linked


def write(config: Config, judgement: Judgement, missing: Sequence[str] = ()) -> Path:
    """Write `<root>/reports/nightly.html`; links to runs are relative to it."""
    path = config.root / "reports" / "nightly.html"
    files.write_text(path, page(judgement, history.folder(config), path.parent, missing))
    return path


def page(judgement: Judgement, root: Path, place: Path, missing: Sequence[str] = ()) -> str:
    """The page as HTML. `root` is the nightly folder, `place` the folder that the page will lie in."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    order = sorted(judgement.verdicts, key=lambda verdict: (not verdict.bad, verdict.series.name))
    causes = [(cause, [tell.told(change) for change in tell.cause_changes(cause, root)]) for cause in judgement.causes]
    return environment.get_template("page.html.j2").render(
        judgement=judgement,
        causes=causes,
        series=[_section(verdict, judgement, root, place) for verdict in order],
        missing=missing,
        shown=tell.SHOWN,
    )


def _section(verdict: Verdict, judgement: Judgement, root: Path, place: Path) -> dict[str, Any]:
    series = verdict.series
    runs = [
        {
            "night": run.night,
            "node": run.node or "several nodes",
            "value": f"{value:.5g}",
            "outcome": run.outcome.replace("_", " "),
            "link": os.path.relpath(root / run.folder, place),
        }
        for run, value in list(zip(series.runs, series.value, strict=True))[: -LINKED - 1 : -1]
    ]
    return {
        "verdict": verdict,
        "name": series.name,
        "unit": series.metric.unit,
        "nights": len(series.course.night),
        "plot": trend.svg(verdict, judgement.nights, judgement.marks),
        "runs": runs,
    }
