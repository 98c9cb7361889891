"""System descriptions, systems/<system>.json: the official checker's function on each, and what it falls over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.verdict.findings import ERROR, Finding
from podium.verdict.official.hearing import Hearing, listening

# The official function joins these to a line of text; a number stops it.
TEXTS = (
    "submitter",
    "system_name",
    "host_processor_model_name",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
    "framework",
)


@dataclass(frozen=True)
class Description:
    """A description and what is to be said of it. `division` is None where the package checker falls over for it."""

    path: str
    division: str | None
    official: str
    messages: tuple[str, ...]
    findings: tuple[Finding, ...]


def check(path: Path, shown: str, round: str) -> Description:
    """Check a description that is there; `shown` is how its path is written."""
    from mlperf_logging.system_desc_checker.system_desc_checker import check_system_desc

    hearing = Hearing()
    content: Any = None
    with listening() as lines:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            passed, *_ = check_system_desc(str(path), "training", round)
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            passed = False
            expected, found = _cause(content, error)
            text = f"{type(error).__name__}: {error}"
            hearing.fall(Finding("description-unreadable", ERROR, shown, 0, expected, found, text, "falls over"))
    for line in lines:
        hearing.fail(line.removeprefix("ERROR: "), *_named(content, line, shown))
    if not passed and not lines:
        hearing.fall()
    division = content.get("division") if isinstance(content, dict) else None
    if isinstance(content, dict) and "division" in content and not isinstance(division, str):
        division = json.dumps(division)  # compared with "closed" and found to be another word
    return Description(shown, division, hearing.answer, tuple(hearing.said), tuple(hearing.found))


def missing(shown: str) -> Description:
    """A system with results and no description: the package checker falls over it."""
    text = f"FileNotFoundError: [Errno 2] No such file or directory: '{shown}'"
    found = Finding(
        "description-missing", ERROR, shown, 0, "the description of the system", "no such file", text, "falls over"
    )
    return Description(shown, None, "none", (), (found,))


def _named(content: Mapping[str, Any], line: str, shown: str) -> list[Finding]:
    """The reasons of a failed description, each as a finding; the official line lists them all, or the last kind."""
    found = []
    if "Missing field" in line:
        absent = [part.split("'")[0] for part in line.split("Missing field ")[1:]]
        found = [
            Finding("description-field", ERROR, shown, 0, f"a field {name}", "no such field", line) for name in absent
        ]
    if "Field status" in line:
        options = line.rsplit("must be one of ", 1)[-1].strip("[]'\" ")
        status = json.dumps(content.get("status"))
        found.append(Finding("description-status", ERROR, shown, 0, options.replace("'", ""), status, line))
    return found


def _cause(content: Any, error: Exception) -> tuple[str, str]:
    if content is None:
        return "JSON text in UTF-8", str(error)
    if not isinstance(content, dict):
        return "a JSON object", f"a {type(content).__name__}"
    numbers = [f"{name}: {json.dumps(content[name])}" for name in TEXTS if not isinstance(content.get(name, ""), str)]
    return "text in quotes in the fields " + ", ".join(TEXTS), ", ".join(numbers) or str(error)
