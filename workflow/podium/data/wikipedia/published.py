"""What is published of the full set's sequences: how many there are, and the hash of what each shard holds."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from podium import config as configuration
from podium.data.wikipedia.instances import Recipe
from podium.manifest import SUBSET


@dataclass(frozen=True)
class Published:
    """Of the published text, prepared by the benchmark's recipe."""

    train_instances: int
    eval_instances: int
    shards: tuple[str, ...]  # content hash of each; none where none are published for this layout and number
    evaluation: str


def of(layout: str, counts: Mapping[str, Any]) -> Published | None:
    """What must come out, or None for another text, vocabulary or recipe. `counts` are those of `prepare`."""
    facts = configuration.catalog("datasets/wikipedia")["published"]
    here = {name: counts.get(name) for name in ("parts", "vocabulary")}
    if (
        counts.get(SUBSET)
        or counts.get("recipe") != asdict(Recipe()) | {"do_lower_case": True}
        or here != {name: facts[name] for name in here}
    ):
        return None
    column = facts["shards"]["columns"].get(layout, {}).get(counts["shards"])
    hashes: tuple[str, ...] = ()
    if column:
        table = configuration.WORKFLOW / "catalog" / "datasets" / facts["shards"]["table"]
        with table.open(encoding="utf-8", newline="") as file:
            hashes = tuple(row[column] for row in csv.DictReader(file) if row[column])
    return Published(facts["train_instances"], facts["eval_instances"], hashes, facts["eval_content"])
