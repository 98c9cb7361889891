"""What a dataset's `prepare` is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """Turn the files below `source` into `layout` below `to`.

    `to` is a work folder that `podium prepare` renames when all is done; after an interrupted try it still holds the
    files that were finished then (each was written whole), so that a `prepare` may skip them. `params` come from the
    config or from `--params`; each dataset module says which it knows. The bytes do not depend on `workers`.
    """

    source: Path
    layout: str
    to: Path
    params: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1
