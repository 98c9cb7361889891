"""Findings: what is wrong, by which rule, where, what was expected, what to do. The rules are in the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podium.verdict.official import rulefiles
from podium.verdict.official.compliance import Fall, Message

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Rule:
    """A rule in our words. `source` is where it stands in the rules, `checker` what of the tool asks for it."""

    id: str
    title: str
    rule: str
    source: str
    checker: str
    fix: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `path` is as a reader of the tree would write it, `line` 0 where it means the whole.

    `level`: an error makes a verdict "not compliant", a warning does not. `official` is what the official tool does:
    it says it (then `text` has its words), says nothing, or falls over with a traceback (then `text` has its end).
    """

    rule: str
    level: str
    path: str
    line: int
    expected: str
    found: str
    text: str = ""
    official: str = "says"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    def as_json(self) -> dict[str, Any]:
        about = rules()[self.rule]
        return {
            "rule": self.rule,
            "level": self.level,
            "title": about.title,
            "file": self.path,
            "line": self.line or None,
            "expected": self.expected,
            "found": self.found,
            "fix": about.fix,
            "source": about.source,
            "official": self.official,
            "text": self.text,
        }


@cache
def rules() -> Mapping[str, Rule]:
    """The rules by id: those of the verdict (workflow/catalog/rules.yaml), and of lint (lint.yaml)."""
    found: dict[str, Rule] = {}
    for name in ("rules.yaml", "lint.yaml"):
        text = (Path(__file__).parents[2] / "catalog" / name).read_text(encoding="utf-8")
        found |= {id: Rule(id=id, **value) for id, value in yaml.load(text, Loader=rulefiles.LOADER).items()}
    return found


def of_message(message: Message, path: str, level: str = ERROR) -> Finding:
    """A finding from what the official checker says of a log."""
    expected = f"{message.key}: {message.expected}" if message.key else message.expected
    return Finding(message.kind, level, path, message.line, expected, message.found, message.text)


def of_fall(fall: Fall, path: str) -> Finding:
    """A finding from where the official tool falls over."""
    return Finding(fall.kind, ERROR, path, fall.line, fall.expected, fall.found, fall.error, "falls over")


def silent(rule: str, level: str, path: str, expected: str, found: str) -> Finding:
    """A finding of which the official tool says nothing."""
    return Finding(rule, level, path, 0, expected, found, "", "says nothing")


def worst(findings: Iterable[Finding]) -> str:
    """The word of a verdict: "not compliant" where any finding is an error."""
    return "not compliant" if any(finding.level == ERROR for finding in findings) else "compliant"
