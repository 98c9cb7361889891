"""The answer of `podium check` as JSON: the official tool's words apart from Podium's findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from podium.verdict.findings import worst
from podium.verdict.judge import Verdict
from podium.verdict.official.description import Description
from podium.verdict.official.hearing import FAIL, NONE, PASS
from podium.verdict.official.params import Parameter
from podium.verdict.official.rcptest import Outcome
from podium.verdict.submission import Submission
from podium.verdict.tree import Tree


def as_json(tree: Tree, round: str, checker: str, submissions: Sequence[Submission]) -> dict[str, Any]:
    """Everything that was found out about a tree. `package` and `repository` are the two official answers on it."""
    every = [finding for item in submissions for finding in item.every]
    repositories = [item.repository for item in submissions if item.repository is not None]
    said = [text for item in submissions for text in _said(item)]
    value = {
        "tree": str(tree.path),
        "kind": tree.kind,
        "round": round,
        "checker": checker,
        "verdict": worst(every),
        "package": _answer([item.official for item in submissions], said),
        "repository": _answer(
            [item.official for item in repositories], [text for item in repositories for text in item.messages]
        ),
        "submitters": [submission(item) for item in submissions],
        "findings": [finding.as_json() for finding in every],
    }
    return clean(value)


def submission(item: Submission) -> dict[str, Any]:
    """One submitter. `official_without_options` is the package checker's answer without any flag."""
    return {
        "submitter": item.name,
        "verdict": item.word,
        "official": item.official,
        "official_without_options": item.plain,
        "repository": item.repository.official if item.repository else None,
        "parameters": [_parameter(parameter) for parameter in item.parameters],
        "descriptions": [_description(description) for description in item.descriptions],
        "results": [result(verdict) for verdict in item.verdicts],
    }


def result(verdict: Verdict) -> dict[str, Any]:
    """One result: the answers of each check, and what the official tool says in its order."""
    return {
        "system": verdict.result.system,
        "benchmark": verdict.result.benchmark,
        "folder": verdict.result.shown(),
        "division": verdict.division,
        "verdict": verdict.word,
        "official": verdict.official,
        "official_without_options": verdict.plain,
        "logs": len(verdict.runs),
        "required": verdict.required,
        "compliant_logs": sum(run.compliant is True for run in verdict.runs),
        "compliance": verdict.compliance,
        "seeds": verdict.seeds,
        "rcp": _rcp(verdict.rcp, verdict.closed),
        "rcp_otherwise": _rcp(verdict.rcp_otherwise, verdict.closed),
        "parameters": [_parameter(parameter) for parameter in verdict.parameters],
        "runs": [{"log": run.path, "compliant": run.compliant, "messages": run.messages} for run in verdict.runs],
        "messages": list(verdict.messages),
        "findings": [finding.as_json() for finding in verdict.findings],
    }


def _answer(answers: Sequence[str], messages: Iterable[str]) -> dict[str, Any]:
    word = NONE if NONE in answers else FAIL if FAIL in answers else PASS
    return {"answer": word, "passed": word == PASS, "messages": list(messages)}


def _said(item: Submission) -> list[str]:
    return [text for part in (*item.descriptions, *item.verdicts) for text in part.messages]


def _description(item: Description) -> dict[str, Any]:
    return {"file": item.path, "division": item.division, "official": item.official, "messages": list(item.messages)}


def _parameter(item: Parameter) -> dict[str, Any]:
    return {"name": item.name, "place": item.place, "file": item.path.name, "counts": item.counts, "why": item.why}


def _rcp(outcome: Outcome | None, closed: bool) -> dict[str, Any] | None:
    """The RCP test; `counts` says whether the package checker makes it at all."""
    if outcome is None:
        return None
    answer = outcome.answer
    value: dict[str, Any] = {
        "counts": closed and outcome.benchmark != "minigo",
        "answer": NONE if answer is None else PASS if answer.passed else FAIL,
        "batch_size": outcome.batch_size,
        "convergence_points": outcome.way,
        "why": outcome.why,
    }
    if answer is not None:
        value |= {
            "message": answer.message,
            "scaling": answer.scaling,
            "mean": answer.mean,
            "reference_mean": answer.reference.mean if answer.reference else None,
            "fastest_accepted_mean": answer.fastest,
            "bypassed": answer.bypassed,
        }
    return value


def clean(value: Any) -> Any:
    """A value without what logs and names can hold and JSON in UTF-8 cannot: null for what is no number, ? for what is
    no text."""
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
