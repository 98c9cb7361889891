"""The JSON that tools print: what has another form than asked for tells nothing, and no parser falls over it."""

from __future__ import annotations

import json
from typing import Any


def value(text: str) -> Any:
    """What a tool printed; None where that is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def mapping(item: Any) -> dict[str, Any]:
    """An object; empty for anything else."""
    return item if isinstance(item, dict) else {}


def mappings(items: Any) -> list[dict[str, Any]]:
    """The objects of a list; none for anything else."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
