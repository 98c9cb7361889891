"""What tests build their configs with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podium import plan
from podium.config import Config

REPOSITORY = Path(__file__).parents[1]
SCRIPTED = REPOSITORY / "tests" / "scripted"
SHARED = REPOSITORY.parent / "shared"  # real inputs and oracle outputs; not ours, so absent from the repository


def config_text(root: Path, name: str = "good", **changes: Any) -> dict[str, Any]:
    """A valid config as a mapping: one result of resnet on one system, run by the scripted implementation."""
    value = {
        "root": str(root),
        "submission": {"org": "tests", "division": "open", "round": "3.1.0", "status": "research", "demo": True},
        "systems": {"host": {"nodes": 1, "gpus_per_node": 0}},
        "results": [
            {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": name},
        ],
        "data": {"sets": {"imagenet": {"source": "demo", "layout": "recordio"}}},
    }
    return value | changes


def first_plan(config: Config) -> plan.Plan:
    return plan.plans(config)[0]
