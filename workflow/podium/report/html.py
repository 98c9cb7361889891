"""One self-contained page: board, scores, convergence and time of every run, differences, timeline.

Nothing is fetched by it and nothing leaves it: style, script and plots are in the page.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium import files
from podium.config import Config
from podium.package import sources, system
from podium.package.sources import Source
from podium.report import board, plot, runs, status
from podium.report.plot import Band, Column, Line, Span
from podium.report.runs import Told
from podium.verdict import kept
from podium.verdict.score.score import heading, label

PARTS = ("init", "train", "eval")


def page(config: Config) -> str:
    """The page as HTML; it reads only the work root and says what is missing there."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = sources.sources(config)
    told = {source.name: runs.attempts(source) for source in found}
    seen = board.board(config)
    spans, begin = timeline(found, told)
    return environment.get_template("page.html.j2").render(
        heading=heading(config),
        label=label(config),
        trademark=not config.inhouse,
        board=seen,
        clock=status.clock(seen),
        reasons=status.reasons(seen.rows),
        results=[result(source, told[source.name]) for source in found],
        systems=[_system(source) for source in {source.item.system.name: source for source in found}.values()],
        timeline=plot.timeline(spans, begin),
        spans=spans,
        parts=PARTS,
    )


def result(source: Source, told: Sequence[Told]) -> dict[str, Any]:
    """One result's section: its verdict and score, a row for each attempt, the plots."""
    config, item = source.config, source.item
    verdict = kept.read(config, item)
    use = _uses(verdict)
    unit = f"{item.task.unit}s"
    lines = [
        Line(
            f"run {one.attempt.number}",
            tuple((point.epoch, point.value) for point in one.run.evaluations),
            one.run.converged,
            use.get(one.attempt.number, ("other", ""))[0],
        )
        for one in told
    ]
    columns = [
        Column(str(one.attempt.number), tuple(zip(PARTS, (one.init or 0.0, one.train, one.evaluate), strict=True)))
        for one in told
        if one.train is not None
    ]
    band, words = _band(verdict, unit)
    target = runs.target(config.submission.round, item.benchmark) if config.submission.division == "closed" else None
    return {
        "name": source.name,
        "id": source.name.replace("/", "-").replace(".", "-"),
        "system": item.system.name,
        "benchmark": item.benchmark,
        "quality": item.task.quality,
        "unit": unit,
        "verdict": verdict,
        "band": words,
        "rows": [_row(one, use) for one in told],
        "kinds": sorted({line.kind for line in lines}),
        "marked": target is not None or plot.near(band, lines),
        "convergence": plot.lines(lines, unit, item.task.quality, target, band),
        "split": plot.stacked(columns, PARTS, "run"),
        "environments": runs.environments(told),
    }


def _uses(verdict: Mapping[str, Any] | None) -> dict[int, tuple[str, str]]:
    """By attempt: the class of its line, and what it is used for in words."""
    if verdict is None:
        return {}
    uses = {number: ("counted", "counted") for number in verdict["counted"]}
    minutes = {run["attempt"]: run["minutes"] for run in verdict["runs"]}
    kept = [number for index, number in enumerate(verdict["counted"]) if index not in verdict["score"]["dropped"]]
    slowest = max((minutes[number] or 0.0 for number in kept), default=0.0)
    for index in verdict["score"]["dropped"]:
        number = verdict["counted"][index]
        end = "slowest" if minutes[number] is None or minutes[number] >= slowest else "fastest"
        uses[number] = ("dropped", f"counted, dropped as {end}")
    return uses


def _row(one: Told, use: Mapping[int, tuple[str, str]]) -> dict[str, Any]:
    return {
        "attempt": one.attempt.number,
        "outcome": one.attempt.outcome,
        "seed": one.attempt.seed,
        "init": one.init,
        "train": one.train,
        "evaluate": one.evaluate,
        "minutes": one.run.minutes,
        "epoch": one.last[0] if one.last else None,
        "quality": one.last[1] if one.last else None,
        "use": use.get(one.attempt.number, ("other", "not counted"))[1],
        "points": [(point.epoch, point.value, point.minutes) for point in one.run.evaluations],
    }


def _band(verdict: Mapping[str, Any] | None, unit: str) -> tuple[Band | None, str]:
    """The RCP's band on the x axis, and in words what the test says."""
    rcp = ((verdict or {}).get("result") or {}).get("rcp")
    if not rcp:
        return None, "RCP: not tested yet"
    if rcp.get("reference_mean") is None:
        return None, f"RCP: {rcp.get('message', rcp['answer'])}"
    low, high = rcp["fastest_accepted_mean"], rcp["reference_mean"]
    words = (
        f"RCP at batch size {rcp['batch_size']}: reference mean {high:,.6g} {unit}, "
        f"a mean of {low:,.6g} or more is accepted; here {rcp['mean']:,.6g} ({rcp['message']})"
    )
    if not rcp["counts"]:
        words += "; the test does not count in this division"
    return Band(low, high, words), words


def timeline(found: Sequence[Source], told: Mapping[str, Sequence[Told]]) -> tuple[list[Span], str]:
    """The attempts of all results as bars; one that has not ended reaches to the last end that is known."""
    launched = []
    for source in found:
        for one in told[source.name]:
            record = one.attempt.record or {}
            if record.get("started") and record.get("stopped"):
                start, stop = (_seconds(record[key]) for key in ("started", "stopped"))
                minutes = (stop - start) / 60
                ended, began = one.attempt.outcome.replace("_", " "), record["started"][:16].replace("T", " ")
                words = f"attempt {one.attempt.number} of {source.name}: {ended}, {minutes:.1f} min from {began} UTC"
                words += f" on {', '.join(record['nodes'])}"
                launched.append(Span(source.name, start, stop, one.attempt.outcome, words))
    first = min((span.start for span in launched), default=0.0)
    moment = datetime.datetime.fromtimestamp(first, datetime.UTC)
    return launched, f"{moment:%Y-%m-%d %H:%M} UTC"


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def _system(source: Source) -> dict[str, Any]:
    """A system's description, which of its fields are open, and where its nodes differ."""
    path, told = source.description, system.facts_file(source.config, source.item.system.name)
    facts = files.read_json(told) if told.exists() else {"nodes": [], "differences": {}}
    description = files.read_json(path) if path.exists() else {}
    shown = {key: _plain(value) for key, value in description.items() if value}
    missing = system.open_fields(description) if description else []
    return {"name": source.item.system.name, "fields": shown, "open": missing, **facts}


def _plain(value: Any) -> str:
    return "; ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
