"""Who has to know what the night was like: an exit status, JSON, JUnit XML for CI, a webhook."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from podium.errors import ENVIRONMENT, FINDINGS, GOOD, BadEnvironment
from podium.nightly import changes
from podium.nightly.causes import Cause
from podium.nightly.judge import Judgement
from podium.nightly.verdict import NO_DATA, Verdict
from podium.verdict.answer.junit import quoted, text

SECRET = "PODIUM_WEBHOOK_SECRET"
TRIES = 5
SHOWN = 20  # changes of a cause


def status(judgement: Judgement, missing: Sequence[str] = ()) -> int:
    """1 where something is worse; else 3 where runs of the night are missing; else 0."""
    if judgement.worse:
        return FINDINGS
    return ENVIRONMENT if missing else GOOD


def as_json(judgement: Judgement, root: Path, missing: Sequence[str] = ()) -> dict[str, Any]:
    """All of it, for machines. `root` is the nightly folder, `missing` what the night lacks."""
    return {
        "night": judgement.night,
        "status": status(judgement, missing),
        "series": [_series(verdict) for verdict in judgement.verdicts],
        "slow_nodes": [asdict(node) for node in judgement.slow],
        "causes": [
            {
                "kind": cause.kind,
                "text": cause.text,
                "since": cause.since,
                "last_good": cause.good,
                "series": [verdict.series.name for verdict in cause.verdicts],
                "changes": [asdict(change) for change in cause_changes(cause, root)],
            }
            for cause in judgement.causes
        ],
        "missing": list(missing),
        "problems": list(judgement.problems),
    }


def cause_changes(cause: Cause, root: Path) -> list[changes.Change]:
    """What changed when the first of a cause's series did."""
    first = next(verdict for verdict in cause.verdicts if verdict.since == cause.since)
    return changes.between(root, first.series.runs, cause.good, cause.since)


def _series(verdict: Verdict) -> dict[str, Any]:
    series = verdict.series
    facts = {name: value for name, value in vars(verdict).items() if name != "series"}
    return {
        "series": series.name,
        "system": series.system,
        "benchmark": series.benchmark,
        "config": series.config,
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "nights": len(series.course.night),
        "last": float(series.value[-1]),
        **facts,
    }


def summary(judgement: Judgement, root: Path, missing: Sequence[str] = ()) -> list[str]:
    """The night in lines for a person: what is worse, what it has in common, what changed, what is missing."""
    counts: dict[str, int] = {}
    for verdict in judgement.verdicts:
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda item: -item[1]))
    lines = [f"night {judgement.night}: {words or 'nothing is known yet'}"]
    for cause in judgement.causes:
        lines.append(f"since {cause.since} (last good night {cause.good}): {cause.text}")
        lines += [f"  {verdict.series.name}: {verdict.text}" for verdict in cause.verdicts]
        found = cause_changes(cause, root)
        lines += [f"  changed: {told(change)}" for change in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"  and {len(found) - SHOWN} more (--json)")
        if not found:
            lines.append("  nothing that is recorded changed between these nights")
    lines += [
        f"slow node {node.node} of {node.system}: {node.percent:.1f} % [{node.low:.1f}, {node.high:.1f}] slower "
        f"than the others in its last {node.runs} runs, since {node.since}"
        for node in judgement.slow
    ]
    lines += [f"missing: {what}" for what in missing]
    return lines + [f"problem: {what}" for what in judgement.problems]


def told(change: changes.Change) -> str:
    """A change as a line: its kind, the fact, before and after."""
    before, after = (", ".join(values) or "absent" for values in (change.before, change.after))
    often = f" (changed {change.earlier} times on good nights)" if change.earlier else ""
    return f"[{change.kind}] {change.fact}: {before} -> {after}{often}"


def junit(judgement: Judgement, root: Path, missing: Sequence[str] = ()) -> str:
    """A suite for each benchmark on each system, a case for each series; what is missing is a suite of its own."""
    suites: dict[str, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        suites.setdefault(f"{verdict.series.system}/{verdict.series.benchmark}", []).append(verdict)
    why = {
        verdict.series.name: [cause.text, *(told(change) for change in cause_changes(cause, root)[:SHOWN])]
        for cause in judgement.causes
        for verdict in cause.verdicts
    }
    parts = [_suite(name, [_case(name, verdict, why) for verdict in cases]) for name, cases in suites.items()]
    if missing:
        parts.append(_suite("night", [_error(what) for what in missing]))
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="podium nightly">\n'
    return head + "".join(parts) + "</testsuites>\n"


def _error(what: str) -> str:
    return f"<testcase classname={quoted('night')} name={quoted(what)}><error message={quoted(what)}/></testcase>"


def _suite(name: str, cases: Sequence[str]) -> str:
    failed, errors, skipped = (sum(tag in case for case in cases) for tag in ("<failure", "<error", "<skipped"))
    counts = f"tests={quoted(len(cases))} failures={quoted(failed)} errors={quoted(errors)} skipped={quoted(skipped)}"
    return f"<testsuite name={quoted(name)} {counts}>\n" + "\n".join(cases) + "\n</testsuite>\n"


def _case(suite: str, verdict: Verdict, why: dict[str, list[str]]) -> str:
    inner = f"<system-out>{text([verdict.text])}</system-out>"
    if verdict.bad:
        lines = text([verdict.text, *why.get(verdict.series.name, [])])
        inner = f"<failure message={quoted(verdict.text)}>{lines}</failure>"
    elif verdict.word == NO_DATA:
        inner = f"<skipped message={quoted(verdict.text)}/>"
    name = f"{verdict.series.config}/{verdict.series.metric.name}"
    return f"<testcase classname={quoted(suite)} name={quoted(name)}>{inner}</testcase>"


def webhook(url: str, content: dict[str, Any], wait: Callable[[float], None] = time.sleep) -> None:
    """POST the JSON to a URL, or to the one that a variable `$NAME` holds; tries again, ever more slowly, where the
    other side is down or busy.

    With $PODIUM_WEBHOOK_SECRET the header `X-Podium-Signature: sha256=<hex>` is the HMAC of the body, as
    GitHub's webhooks do it. Raises BadEnvironment when nobody took it; of the URL only the host is shown: the rest may
    be as secret as the secret.
    """
    import requests

    if url.startswith("$"):
        name = url[1:]
        url = os.environ.get(name, "")
        if not url.startswith(("http://", "https://")):
            raise BadEnvironment("nobody was told", f"a URL in ${name}", "none", f"export {name}=https://…")
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json"}
    if secret := os.environ.get(SECRET):
        headers["X-Podium-Signature"] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    shown = urllib.parse.urlsplit(url).hostname
    found = ""
    for number in range(TRIES):
        if number:
            wait(2.0**number)
        try:
            answer = requests.post(url, data=body, headers=headers, timeout=30)
        except requests.RequestException as error:
            found = type(error).__name__
            continue
        if answer.ok:
            return
        found = f"status {answer.status_code}"
        if answer.status_code < 500 and answer.status_code not in (408, 429):
            break
    raise BadEnvironment(
        f"nobody was told by {shown}", "status 2xx", found, "look at nightly.webhook, then podium nightly show"
    )
