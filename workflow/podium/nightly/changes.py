"""What changed between the last good night and the first bad one, the likeliest cause first.

A fact is a path in what runs were made with (facts.py, run.py) and its value. Facts are ranked by what they are (a
driver makes training slower more often than a host name does), and those that keep changing while nothing happens go to
the end of their kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.nightly import history
from podium.nightly.index import Run

MEMORY = 30  # good nights that tell what changes anyway

# Kind, and what the path of its facts looks like; the first that fits. The order is the rank.
KINDS = (
    ("driver", r"^driver\b|packages\.(nvidia-driver|amdgpu|rocm)"),
    ("firmware", r"^(?!packages).*(firmware|bios|microcode)"),
    ("collectives and transport", r"nccl|rccl|ucx|libfabric|openmpi|^network\b|NCCL_|UCX_|FI_"),
    ("image", r"^image\b|^commit\b|^base\b"),
    ("framework", r"^versions\b|packages\.(torch|triton|tensorflow|jax|jaxlib|mxnet.*|cuda.*|cudnn.*|nvidia-.*)$"),
    ("kernel", r"^kernel\b|^libc\b|^os\b|^python\b"),
    ("clocks and limits", r"^(?!packages).*(clock|governor|power|ecc|throttl|numa|hugepages)"),
    ("settings", r"^variables\b|^config\b|^site\b"),
    ("disk and data", r"^disk\b|^data\b|^mounts?\b"),
    ("packages", r"^(system_)?packages\b"),
    ("other", r"."),
)
NODE = re.compile(r"^(host|nodes?)\b|\.(serial|uuid)$")  # who ran it: last of all


@dataclass(frozen=True)
class Change:
    """One fact that differs. Values are the sorted ones seen on the nights; empty where the fact was absent."""

    kind: str
    fact: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    earlier: int


def between(root: Path, runs: Sequence[Run], good: str, bad: str) -> list[Change]:
    """What changed for `runs` (of one benchmark on one system) from the night `good` to the night `bad`, ranked.

    `root` is the nightly folder; nights of which nothing is known are passed over.
    """
    kept: dict[str, dict[str, Any] | None] = {}
    nights: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        if history.order(run.night) > history.order(good) and run.night != bad:
            continue
        if run.environment not in kept:
            kept[run.environment] = history.environment(root, run.environment)
        if (facts := kept[run.environment]) is not None:
            nights.setdefault(run.night, []).append(facts)
    after = nights.pop(bad, [])
    before = [nights[night] for night in sorted(nights, key=history.order)][-MEMORY:]
    return ranked(before, after) if before and after else []


def flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested facts as paths: {"packages": {"torch": "2.13"}} is {"packages.torch": "2.13"}; lists are joined."""
    found: dict[str, str] = {}
    for key, value in facts.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return found


def ranked(nights: Sequence[Sequence[Mapping[str, Any]]], bad: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Every fact that differs between the last of `nights` and `bad`, the likeliest cause first.

    `nights` are the environments of the runs of each good night, oldest first; `bad` those of the first bad night.
    """
    good = [_values(environments) for environments in nights]
    after = _values(bad)
    before = good[-1] if good else {}
    found = []
    for fact in before.keys() | after.keys():
        one, other = before.get(fact, frozenset()), after.get(fact, frozenset())
        # Runs of one night may differ (each on its own node): what was there on both nights has not changed.
        if one != other and not (one and other and (one <= other or other <= one)):
            earlier = sum(a.get(fact) != b.get(fact) for a, b in zip(good, good[1:], strict=False))
            found.append(Change(kind(fact), fact, tuple(sorted(one)), tuple(sorted(other)), earlier))
    order = [name for name, _ in KINDS] + ["node"]
    return sorted(found, key=lambda item: (item.earlier > 1, order.index(item.kind), item.earlier, item.fact))


def kind(fact: str) -> str:
    """What sort of thing a fact is about."""
    if NODE.search(fact):
        return "node"
    return next(name for name, pattern in KINDS if re.search(pattern, fact))


def _values(environments: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    values: dict[str, set[str]] = {}
    for environment in environments:
        for fact, value in flat(environment).items():
            values.setdefault(fact, set()).add(value)
    return {fact: frozenset(seen) for fact, seen in values.items()}
