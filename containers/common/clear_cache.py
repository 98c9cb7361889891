#!/usr/bin/env python3
"""Drop cached data before a run and log it as `cache_clear`: the rules want it logged by the script that does it.

CLEAR_CACHE=system: every cached page of this node (needs root); falls back to `data` where that is not allowed.
CLEAR_CACHE=data: the pages of the files below DATADIR (posix_fadvise(2), POSIX_FADV_DONTNEED).
"""

from __future__ import annotations

import inspect
import json
import os
import time
from pathlib import Path


def drop_all() -> bool:
    """Drop every clean page of the node; False where it is not allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def drop_below(folder: Path) -> None:
    """Drop the pages of every file below `folder`."""
    for base, _, names in os.walk(folder):
        for name in names:
            file = os.open(Path(base) / name, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def log_cache_clear(folder: Path, how: str) -> None:
    """Add the line `cache_clear` to the log in `folder`; by hand, since mllog would take half a second to import."""
    place = {"file": "common/clear_cache.py", "lineno": inspect.currentframe().f_lineno, "how": how}
    event = {"namespace": "", "time_ms": time.time_ns() // 1_000_000, "event_type": "POINT_IN_TIME"}
    record = {**event, "key": "cache_clear", "value": True, "metadata": place}
    with (folder / "mllog.txt").open("a", encoding="utf-8") as log:
        log.write(f":::MLLOG {json.dumps(record)}\n")


def main() -> None:
    how = os.environ.get("CLEAR_CACHE", "system")
    if how == "system" and not drop_all():
        how = "data"
    if how == "data":
        drop_below(Path(os.environ["DATADIR"]))
    if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0":
        logs = Path(os.environ["LOGDIR"])
        logs.mkdir(parents=True, exist_ok=True)
        log_cache_clear(logs, how)


if __name__ == "__main__":
    main()
