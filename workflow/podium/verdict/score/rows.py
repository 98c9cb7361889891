"""The scores of a results tree: what its logs say, what the official summarizer makes of them, and the RCP scaling.

Two things are told apart. The raw score counts a run as converged where its run_stop says success; the official one
(result_summarizer) where the log complies with the round's rules. They differ only where a result has logs that miss
the one and not the other. The scaling is computed anew from the pinned checker's RCPs; what the submission's own
scaling.json says stands beside it. Nothing is written, so that the same tree has the same scores every time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import files
from podium.verdict import submission
from podium.verdict.judge import Verdict
from podium.verdict.official import rcptest
from podium.verdict.official.hearing import Hearing
from podium.verdict.official.rcptest import Outcome
from podium.verdict.reading import cache
from podium.verdict.reading.digest import Digest
from podium.verdict.score.olympic import Score, olympic
from podium.verdict.tree import SCALING, Result, Tree


@dataclass(frozen=True)
class Row:
    """The score of one result, in minutes; None where there is none, and `why` says why.

    `dropped` are the logs that the olympic mean leaves out. `scaling` is what the official score is multiplied by and
    `norm` where that comes from; `rcp_norm` is the factor that the RCP test computes even where it does not count (open
    division, a test that fails). `published_scaling` is the submission's scaling.json, `published_minutes` the official
    score times that: the score in MLCommons' table.
    """

    submitter: str
    system: str
    benchmark: str
    division: str
    runs: int
    required: int
    raw_minutes: float | None
    dropped: tuple[str, ...]
    official_minutes: float | None
    scaling: float
    norm: str
    scaled_minutes: float | None
    published_scaling: float | None
    published_minutes: float | None
    rcp: str
    rcp_norm: float | None
    why: str


def digests(found: Tree, round: str) -> Mapping[Path, Digest]:
    """What is known of every log of a tree, read by all cores and kept; never in the tree itself."""
    place = cache.place()
    inside = place.resolve().is_relative_to(found.path.resolve())
    return cache.digests((path for result in found.results for path in result.logs), round, None if inside else place)


def scores(found: Tree, round: str) -> list[Row]:
    """The scores of all results of a tree, in its order."""
    known = digests(found, round)
    return [row(item, known, round) for part in submission.check(found, known, round) for item in part.verdicts]


def row(verdict: Verdict, known: Mapping[Path, Digest], round: str) -> Row:
    """Score a result whose logs are `known`."""
    result = verdict.result
    logs = [known[path] for path in result.logs]
    raw = olympic([log.minutes if log.epochs.converged else None for log in logs], result.benchmark)
    official = olympic([log.minutes if log.compliant else None for log in logs], result.benchmark)
    outcome = verdict.rcp or _outcome(result, logs, round)
    answer = outcome.answer
    counts = verdict.closed and answer is not None and answer.passed and not answer.bypassed
    scaling = answer.scaling if counts else 1.0
    published, trouble = _published(result)
    return Row(
        submitter=result.submitter,
        system=result.system,
        benchmark=result.benchmark,
        division=verdict.division,
        runs=len(logs),
        required=verdict.required,
        raw_minutes=raw.minutes,
        dropped=tuple(result.logs[index].name for index in sorted(raw.dropped)),
        official_minutes=official.minutes,
        scaling=scaling,
        norm=_norm(verdict, outcome),
        scaled_minutes=_times(official.minutes, scaling),
        published_scaling=published,
        published_minutes=_times(official.minutes, published or 1.0),
        rcp=answer.message if answer else "no answer",
        rcp_norm=answer.scaling if answer and math.isfinite(answer.scaling) else None,
        why=_why(raw, official, verdict, trouble),
    )


def _outcome(result: Result, logs: Sequence[Digest], round: str) -> Outcome:
    """The RCP test of a result that the package checker passes over."""
    named = [(path.name, log) for path, log in zip(result.logs, logs, strict=True)]
    way, _ = rcptest.way(logs, asked=False)
    return rcptest.test(Hearing(), round, named, way, False, result.name)


def _norm(verdict: Verdict, outcome: Outcome) -> str:
    """Which scaling is used and where it comes from, in words."""
    answer = outcome.answer
    if not verdict.closed:
        return f"none: division {verdict.division or 'unknown'}"
    if answer is None:
        return "none: the RCP test has no answer"
    if not answer.passed or answer.bypassed:
        return f"none: {answer.message}" if answer.bypassed else f"none: the RCP test fails ({answer.message})"
    by = f", by {outcome.way}" if outcome.why else ""
    reference = answer.reference
    held = f"the reference's {reference.mean:.6g} at batch size {reference.batch_size:g}"
    return f"{answer.message}: mean {answer.mean:.6g} of {held}{by}"


def _why(raw: Score, official: Score, verdict: Verdict, trouble: str) -> str:
    parts = [raw.why]
    if official.minutes != raw.minutes:
        wrong = sum(not run.compliant for run in verdict.runs)
        what = "no score" if official.minutes is None else "another score"
        parts.append(f"official: {what}, {wrong} logs do not comply")
    if verdict.required and len(verdict.runs) != verdict.required:
        parts.append(f"{len(verdict.runs)} runs, {verdict.required} are required")
    return "; ".join([*parts, trouble] if trouble else parts)


def _published(result: Result) -> tuple[float | None, str]:
    """The factor in the submission's scaling.json; None where there is none, and what is wrong with it."""
    path = result.other(SCALING)
    if path is None:
        return None, ""
    try:
        factor = files.read_json(path)["scaling_factor"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return None, f"{SCALING} cannot be read: {error!r}"
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        return None, f"{SCALING}: scaling_factor is {json.dumps(factor)[:80]}"
    return float(factor), ""


def _times(minutes: float | None, factor: float) -> float | None:
    return None if minutes is None else minutes * factor
