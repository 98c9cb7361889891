"""`<root>/runs/events.jsonl`: a JSON line for each thing that happened to a run, as it was seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from podium import files

NAME = "events.jsonl"


def tell(runs: Path, event: str, **facts: Any) -> None:
    """Append one event; `runs` is the folder of all runs. A single write: lines of several processes never mix."""
    line = json.dumps({"time": files.now(), "event": event, **facts}, ensure_ascii=False) + "\n"
    with files.explained(runs / NAME):
        file = os.open(runs / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
