"""The answer of `podium check` for a reader: a row for each result, then the findings, equal ones together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podium.verdict.findings import ERROR, WARNING, Finding, rules
from podium.verdict.judge import Verdict
from podium.verdict.submission import Submission

SHOWN = 3  # places that are named of a finding that several files share


def table(submissions: Sequence[Submission], beside: Sequence[Mapping[str, Any]] = ()) -> str:
    """The whole answer: rows, what was chosen and asked for, findings, and the answers of another checker."""
    verdicts = [verdict for item in submissions for verdict in item.verdicts]
    rows = [("result", "logs", "comply", "seeds", "RCP", "official", "verdict")]
    rows += [_row(verdict) for verdict in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [line for verdict in verdicts for line in _choices(verdict)]
    for item in submissions:
        lines += [
            f"{item.name}: {parameter.name} in {parameter.place} package_checker_params "
            f"{'counts' if parameter.counts else 'does not count'}: {parameter.why}"
            for parameter in item.parameters
        ]
        if item.repository is not None:
            lines.append(f"{item.name}: package checker {item.official}, repository checker {item.repository.official}")
    lines += explained(finding for item in submissions for finding in item.every)
    for row in beside:
        flags = "".join(f" --{flag}" for flag in row["flags"])
        lines += ["", f"{row['submitter']}: {row['checker']}{flags} says {row['official']}, ours says {row['ours']}"]
        lines += [f"    {_line(error)}" for error in row["errors"]]
    return _visible("\n".join(lines))


def count(submissions: Sequence[Submission]) -> str:
    """How much was looked at and found, in a line."""
    results = sum(len(item.verdicts) for item in submissions)
    logs = sum(len(verdict.runs) for item in submissions for verdict in item.verdicts)
    levels = Counter(finding.level for item in submissions for finding in item.every)
    kinds = Counter(finding.rule for item in submissions for finding in item.every if finding.level == ERROR)
    named = ", ".join(f"{number} {rule}" for rule, number in kinds.most_common())
    errors = f"{levels[ERROR]} errors ({named})" if named else "no errors"
    return f"{logs} logs of {results} results: {errors}, {levels[WARNING]} warnings"


def explained(findings: Iterable[Finding]) -> list[str]:
    """Findings, errors first: what, where, expected, found, the fix. Those of many files are told once."""
    together: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in findings:
        together.setdefault((finding.level, finding.rule, finding.expected, finding.found), []).append(finding)
    lines: list[str] = []
    for (level, rule, expected, found), same in sorted(together.items(), key=lambda item: item[0][0] != ERROR):
        places = ", ".join(dict.fromkeys(finding.place for finding in same[:SHOWN]))
        more = f" and {len(same) - SHOWN} more" if len(same) > SHOWN else ""
        about = rules()[rule]
        lines += ["", f"{level} {rule}: {about.title}", f"  at:       {places}{more}"]
        lines += [f"  expected: {_line(expected)}", f"  found:    {_line(found)}"]
        if same[0].official != "says":
            lines.append(f"  official: {same[0].official}" + (f": {_line(same[0].text)}" if same[0].text else ""))
        lines.append(f"  fix:      {about.fix}")
    return lines


def _row(verdict: Verdict) -> tuple[str, ...]:
    comply = sum(run.compliant is True for run in verdict.runs)
    answer = verdict.rcp.answer if verdict.rcp else None
    counts = "" if verdict.closed else f" ({verdict.division or 'no'} division)"
    said = "no answer" if answer is None else f"{'pass' if answer.passed else 'fail'}: {answer.message}"
    if answer is not None and answer.passed and answer.scaling > 1:
        said += f", score x {answer.scaling:.6g}"
    return (
        verdict.result.shown(),
        f"{len(verdict.runs)}/{verdict.required}",
        str(comply),
        verdict.seeds,
        "-" if verdict.rcp is None else said + counts,
        verdict.official,
        verdict.word,
    )


def _choices(verdict: Verdict) -> list[str]:
    """How bert's convergence was read and what the other way would give; what the params files ask for."""
    lines = []
    shown = verdict.result.shown()
    if verdict.rcp is not None and verdict.rcp.why:
        other = verdict.rcp_otherwise.answer if verdict.rcp_otherwise else None
        otherwise = "no answer" if other is None else f"{'pass' if other.passed else 'fail'}: {other.message}"
        lines.append(f"{shown}: convergence by {verdict.rcp.way}, for {verdict.rcp.why}; the other way: {otherwise}")
    for item in verdict.parameters:
        counts = "counts" if item.counts else "does not count"
        lines.append(f"{shown}: {item.name} in the {item.place}'s package_checker_params {counts}: {item.why}")
    return lines


def _visible(text: str) -> str:
    """Without the control characters that a name can have, which a terminal would obey."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _line(text: str) -> str:
    """Text of a log on one line of a terminal, without its control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:300]
