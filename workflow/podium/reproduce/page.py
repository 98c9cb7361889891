"""The comparison as one self-contained page."""

from __future__ import annotations

from pathlib import Path

from podium.reproduce.compare import Comparison
from podium.verdict.score.score import LABEL


def page(found: Comparison) -> str:
    """The page as HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    ratios = [
        ("time of an epoch", found.speed),
        ("epochs to the target", found.convergence),
        ("time to train", found.time),
        ("throughput", found.throughput),
    ]
    return environment.get_template("page.html.j2").render(found=found, ratios=ratios, label=LABEL)
