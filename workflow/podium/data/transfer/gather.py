"""Many files into one folder: what is there and right is kept, the rest comes by the engine, several files at a time.

Beside a folder FOLDER lies `.FOLDER.jsonl`: size, time of change and digests of each file that was brought or hashed,
so that no file is hashed twice. It may be deleted; then they are hashed again.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from podium import files
from podium.config import Transfer
from podium.data.transfer import Refused, Wanted, segments
from podium.errors import BadInput
from podium.manifest import Entry
from podium.progress import counter

FILES = max(2, os.cpu_count() or 1)  # at a time: each is hashed by a core
TOO_MANY = 20  # files without a source: the rest will have none either


def gather(folder: Path, items: Sequence[Wanted], transfer: Transfer, what: str, advice: str) -> tuple[Entry, ...]:
    """Bring all `items` into `folder`, which no other process may do at the same time; returns what lies there.

    `what` names the work, `advice` the next step where a file cannot be had. Raises BadInput for files that no source
    gives with the right content, all of them named; BadEnvironment where the disk does not hold them.
    """
    _acceptable(items)
    record = folder.with_name(f".{folder.name}.jsonl")
    with ThreadPoolExecutor(FILES) as pool:
        known = _read_record(record)
        present = list(pool.map(lambda item: _present(folder, item, known, record), items))
    entries = [entry for entry in present if entry]
    missing = [item for item, entry in zip(items, present, strict=True) if not entry]
    sizes = [item.bytes for item in missing]
    left = sum(segments.left_of(_part(folder / item.path)) for item in missing)
    files.need_space(folder, sum(size or 0 for size in sizes) - left, what)
    failed: dict[str, str] = {}
    rate = transfer.megabytes_per_second
    with (
        counter(what, sum(sizes) if None not in sizes else None, "B") as arrived,
        ThreadPoolExecutor(FILES) as pool,
        segments.line(transfer.connections, rate and rate * 1e6, arrived) as way,
    ):
        futures = {pool.submit(_bring, folder, item, record, way): item for item in missing}
        try:
            for future in concurrent.futures.as_completed(futures):
                try:
                    entries.append(future.result())
                except Refused as refusal:
                    failed[futures[future].path] = str(refusal)
                    if len(failed) == TOO_MANY:
                        way.ended.set()
                        break
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed:
        raise _failure(failed, {item.path: item for item in items}, advice)
    return tuple(sorted(entries, key=lambda entry: Path(entry.path)))


def _acceptable(items: Sequence[Wanted]) -> None:
    """Refuse lists of files that would overwrite each other or what lies outside the folder."""
    for path, times in Counter(item.path for item in items).items():
        pure = PurePosixPath(path)
        if times > 1 or pure.is_absolute() or ".." in pure.parts or not pure.name:
            found = "it is listed twice" if times > 1 else "it leads out of the folder"
            raise BadInput(f"{path!r} cannot be brought", "paths below a folder, each once", found, "correct the list")


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _bring(folder: Path, item: Wanted, record: Path, way: segments.Line) -> Entry:
    """Bring one file from the first of its sources that gives it; raises Refused with what each of them said."""
    path, refusals = folder / item.path, []
    with files.explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for source in item.sources:
            try:
                digests = segments.bring(source, _part(path), item.bytes, item.hashes, _algorithms(item), way)
            except Refused as refusal:
                refusals.append(f"{source}: {refusal}")
                continue
            _part(path).replace(path)
            _write_record(record, path, item.path, digests)
            return Entry(item.path, path.stat().st_size, digests["sha256"])
    raise Refused("\n".join(refusals) or "no source is known")


def _present(folder: Path, item: Wanted, known: dict[str, Any], record: Path) -> Entry | None:
    """The file if it is there and right; it is hashed where it is not as it was when that was done last."""
    path = folder / item.path
    if not path.is_file():
        return None
    facts = path.stat()
    if item.bytes not in (None, facts.st_size):
        return None
    line = known.get(item.path, {})
    digests = line.get("hashes", {})
    unchanged = (line.get("bytes"), line.get("mtime_ns")) == (facts.st_size, facts.st_mtime_ns)
    if not unchanged or not digests.keys() >= set(_algorithms(item)):
        digests = _hash(path, _algorithms(item))
        _write_record(record, path, item.path, digests)
    wrong = any(digests[name] != value for name, value in item.hashes.items())
    return None if wrong else Entry(item.path, facts.st_size, digests["sha256"])


def _algorithms(item: Wanted) -> tuple[str, ...]:
    """What to compute: sha256, which manifests hold, and what is published."""
    return tuple(dict.fromkeys(("sha256", *item.hashes)))


def _hash(path: Path, algorithms: Sequence[str]) -> dict[str, str]:
    """Several digests of a file in one reading."""
    values = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    with path.open("rb", buffering=0) as file:
        while piece := file.read(files.CHUNK):
            for value in values.values():
                value.update(piece)
    return {name: value.hexdigest() for name, value in values.items()}


def _read_record(record: Path) -> dict[str, Any]:
    """The newest line of each file; a line that was torn by a kill does not count."""
    known = {}
    if record.exists():
        for text in record.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
                known[line["path"]] = line
            except (ValueError, KeyError, TypeError):
                continue
    return known


def _write_record(record: Path, path: Path, name: str, digests: dict[str, str]) -> None:
    facts = path.stat()
    line = {"path": name, "bytes": facts.st_size, "mtime_ns": facts.st_mtime_ns, "hashes": digests}
    with files.explained(record), record.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(line) + "\n")  # the first newline ends a line that was torn


def _failure(failed: dict[str, str], items: dict[str, Wanted], advice: str) -> BadInput:
    if len(failed) == 1:
        ((path, refusals),) = failed.items()
        return BadInput(f"no source gives {path}", published(items[path]), refusals.replace("\n", _INDENT), advice)
    told = [
        f"{path} ({published(items[path])})\n{refusals}".replace("\n", _INDENT) for path, refusals in failed.items()
    ]
    rest = " and the rest was not tried" if len(failed) == TOO_MANY else ""
    return BadInput(
        f"{len(failed)} of {len(items)} files have no source that gives them{rest}",
        "the published sizes and hashes",
        _INDENT.join(told),
        advice,
    )


def published(item: Wanted) -> str:
    """What is published of a file, for people."""
    facts = {"bytes": item.bytes} | item.hashes
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None) or "a file"


_INDENT = "\n            "
