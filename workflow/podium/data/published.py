"""What the catalog says of a whole data set, against what was counted when it was prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podium import config as configuration
from podium.data import catalog


def differences(dataset: str, counts: Mapping[str, Any]) -> list[str]:
    """Where `counts` are not those of the whole data set, one sentence each.

    Compared are the facts under `published` in the catalog that `counts` have too.
    """
    facts = _entry(dataset).get("published", {})
    return [
        f"published counts: expected {expected}, found {found}"
        for name in facts
        if name in counts
        for expected, found in _differing(name, facts[name], counts[name])
    ]


def known_issues(dataset: str, paths: set[str]) -> list[str]:
    """What is known to be odd about these files whoever prepares them, one sentence each."""
    issues = _entry(dataset).get("known_issues", {})
    return [f"{path}: {text}" for path, text in issues.items() if path in paths]


def _entry(dataset: str) -> Mapping[str, Any]:
    """What the catalog has of a set; nothing of one that is brought."""
    return configuration.catalog(f"datasets/{dataset}") if dataset in catalog.names() else {}


def _differing(name: str, expected: Any, found: Any) -> list[tuple[str, str]]:
    """Pairs of what is expected and found below `name`: mappings by key, least and most, decimals as they are given."""
    if isinstance(expected, Mapping) and expected.keys() == {"least", "most"}:
        right = expected["least"] <= found <= expected["most"]
        return [] if right else [(f"{name} {expected['least']} to {expected['most']}", f"{found}")]
    if isinstance(expected, Mapping):
        missing = [(f"{name} {key}", "none") for key in expected if key not in found]
        present = [key for key in expected if key in found]
        return missing + [pair for key in present for pair in _differing(f"{name} {key}", expected[key], found[key])]
    if isinstance(expected, float):
        found = round(found, len(str(expected).partition(".")[2]))
    return [] if expected == found else [(f"{name} {expected}", f"{found}")]
