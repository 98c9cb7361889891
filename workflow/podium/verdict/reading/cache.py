"""What is known of a log, kept by the hash of its content, the round, and the code that found it out."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from podium import files
from podium.verdict.official import compliance, convergence, rulefiles, seeds
from podium.verdict.reading import digest, logs
from podium.verdict.reading.digest import Digest

# With fewer bytes of logs than this one process is done before others have started.
SMALL = 32 << 20


def place(root: Path | None = None) -> Path:
    """The folder of the cache: below a work root, or where the user's caches are (XDG base directories)."""
    if root is not None:
        return root / "cache" / "verdicts"
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".cache") / "podium" / "verdicts"


def digests(logs: Iterable[Path], round: str, folder: Path | None) -> dict[Path, Digest]:
    """What is known of every log, read anew or from `folder`; None keeps nothing. All cores are used where it pays."""
    paths = list(dict.fromkeys(logs))
    one = functools.partial(_digest, round=round, folder=None if folder is None else folder / _version() / round)
    sizes = [_size(path) for path in paths]
    workers = min(len(os.sched_getaffinity(0)), len(paths))
    if workers < 2 or sum(sizes) < SMALL:
        return dict(zip(paths, map(one, paths), strict=True))
    from concurrent.futures import ProcessPoolExecutor  # not imported for a small tree

    # The largest first, so that no core is left with one at the end.
    order = sorted(paths, key=dict(zip(paths, sizes, strict=True)).__getitem__, reverse=True)
    with ProcessPoolExecutor(workers) as pool:
        found = dict(zip(order, pool.map(one, order, chunksize=8), strict=True))
    return {path: found[path] for path in paths}


def _digest(path: Path, round: str, folder: Path | None) -> Digest:
    if folder is None or not _size(path):
        return digest.of_log(path, round)
    try:
        name = files.hash_file(path)
    except OSError:
        return digest.of_log(path, round)
    kept = folder / name[:2] / f"{name[2:]}.json"
    try:
        return digest.from_json(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        found = digest.of_log(path, round)
        _keep(kept, found)
        return found


def _keep(path: Path, found: Digest) -> None:
    """Write an entry whole or not at all; where nothing can be written the verdict does without.

    It is not synced to the disk: an entry that a crash spoils is no JSON and is made anew.
    """
    with contextlib.suppress(OSError, UnicodeEncodeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(found.as_json(), file)
        Path(name).replace(path)


@functools.cache
def _version() -> str:
    """The checker's version, and a hash of the code that reads logs: a change of either makes every entry anew."""
    code = hashlib.sha256()
    for module in (logs, rulefiles, compliance, convergence, seeds, digest):
        code.update(Path(module.__file__).read_bytes())
    return f"{rulefiles.version()}-{code.hexdigest()[:12]}"


def _size(path: Path) -> int:
    """Bytes of a regular file; 0 for anything else, which is not hashed: a pipe could be read for ever."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
