"""What `podium verify --depth sample` makes again: 1 % of the items, by code that is not `prepare`'s."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from podium.manifest import Manifest

Item = TypeVar("Item")


@dataclass(frozen=True)
class Sample:
    """A share of the items of the layout below `folder`, described by `content`, to be made again from `source`."""

    source: Path
    folder: Path
    layout: str
    content: Manifest
    random: random.Random
    share: float = 0.01

    def drawn(self, items: Sequence[Item], least: int = 3, share: float | None = None) -> list[Item]:
        """A share of `items` (the sample's, if no other) and at least so many, in their order."""
        wanted = min(len(items), max(least, math.ceil((share or self.share) * len(items))))
        return [items[place] for place in sorted(self.random.sample(range(len(items)), wanted))]


@dataclass(frozen=True)
class Again:
    """How many items were made again, and how they differ from those that are there, one sentence each."""

    items: int
    problems: list[str]
