"""The answer of `podium check` as JUnit XML, which CI systems show: a suite for each result, a case for each log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from podium.verdict.findings import ERROR, Finding, rules
from podium.verdict.submission import Submission


def report(submissions: Sequence[Submission]) -> str:
    """The whole document. A finding that is an error is a failure of its case; warnings are told in system-out."""
    suites = []
    for item in submissions:
        cases = [(part.path, part.findings) for part in item.descriptions]
        cases.append((item.name, item.findings))
        if item.repository is not None:
            cases.append((f"{item.name} repository", item.repository.findings))
        suites.append(_suite(item.name, cases))
        for verdict in item.verdicts:
            logs = {run.path: [found for found in verdict.findings if found.path == run.path] for run in verdict.runs}
            rest = [found for found in verdict.findings if found.path not in logs]
            suites.append(_suite(verdict.result.shown(), [*logs.items(), (verdict.result.shown(), rest)]))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="podium check">\n'
        + "".join(suites)
        + "</testsuites>\n"
    )


def _suite(name: str, cases: Sequence[tuple[str, Iterable[Finding]]]) -> str:
    failed = sum(any(finding.level == ERROR for finding in found) for _, found in cases)
    body = "".join(_case(name, case, list(found)) for case, found in cases)
    return f"<testsuite name={quoted(name)} tests={quoted(len(cases))} failures={quoted(failed)}>\n{body}</testsuite>\n"


def _case(suite: str, name: str, found: Sequence[Finding]) -> str:
    errors = [finding for finding in found if finding.level == ERROR]
    warnings = [finding for finding in found if finding.level != ERROR]
    inner = ""
    if errors:
        message = "; ".join(dict.fromkeys(rules()[finding.rule].title for finding in errors))
        inner += f"<failure message={quoted(message)}>{text(map(_told, errors))}</failure>"
    if warnings:
        inner += f"<system-out>{text(map(_told, warnings))}</system-out>"
    return f"<testcase classname={quoted(suite)} name={quoted(name)}>{inner}</testcase>\n"


def _told(finding: Finding) -> str:
    about = rules()[finding.rule]
    return (
        f"{finding.level} {finding.rule}: {about.title}\n  at: {finding.place}\n  expected: {finding.expected}\n"
        f"  found: {finding.found}\n  fix: {about.fix}\n{finding.text}"
    )


def quoted(value: object) -> str:
    """An attribute's value."""
    return f'"{escape(_allowed(str(value)))}"'


def text(parts: Iterable[str]) -> str:
    """An element's text, a line each."""
    return escape(_allowed("\n".join(parts)), quote=False)


def _allowed(text: str) -> str:
    """Without the characters that XML 1.0 has no way to write: most control characters, lone surrogates."""
    return "".join(
        char if char in "\t\n" or (char >= " " and not "\ud800" <= char <= "\udfff") else "?" for char in text
    )
