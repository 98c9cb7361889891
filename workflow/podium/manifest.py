"""A folder's `manifest.json`: what the folder holds, how it was made, and from what.

Form (design section 5): {files: [{path, bytes, sha256}], counts, params, tool, from}.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import podium
from podium import files
from podium.errors import BadInput

NAME = "manifest.json"
SUBSET = "subset"  # the count that is true where only some items were taken: no closed submission may use them
OFFICIAL = "official"  # the count that is false where what the benchmark publishes was made in another way: nor these


@dataclass(frozen=True)
class Entry:
    """One file: `path` relative to the folder, size in bytes, content hash."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder holds. `made_from` is the hash of the manifest it was made from, or a URL."""

    files: tuple[Entry, ...]
    counts: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    made_from: str = ""
    tool: str = f"podium {podium.__version__}"

    @functools.cached_property
    def sha256(self) -> str:
        """Identity of the content: the hash over the files alone, whoever wrote them and when."""
        return files.hash_json([vars(entry) for entry in self.files])

    @property
    def marks(self) -> dict[str, Any]:
        """The counts that keep a set out of closed submissions, and with it whatever is made of it."""
        unfit = {SUBSET: True, OFFICIAL: False}
        return {name: value for name, value in unfit.items() if self.counts.get(name) is value}

    def as_json(self) -> dict[str, Any]:
        return {
            "sha256": self.sha256,
            "tool": self.tool,
            "from": self.made_from,
            "counts": dict(self.counts),
            "params": dict(self.params),
            "files": [vars(entry) for entry in self.files],
        }


def of_folder(folder: Path, **facts: Any) -> Manifest:
    """Hash every file below `folder` (hashlib releases the GIL, so threads use all cores)."""
    paths = [path for path in files.walk(folder) if path != Path(NAME)]
    with ThreadPoolExecutor() as pool:
        entries = pool.map(lambda path: entry(folder, path), paths)
        return Manifest(files=tuple(entries), **facts)


def write(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json` into `folder`."""
    files.write_json(folder / NAME, manifest.as_json())


def read(folder: Path) -> Manifest:
    """Read `manifest.json`; raises BadInput when it is missing or its own hash does not fit its content."""
    path = folder / NAME
    if not path.exists():
        raise BadInput(f"no manifest in {folder}", NAME, "nothing", "make it with `podium fetch` or `podium prepare`")
    try:
        return parsed(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise _unreadable(str(path), error) from error


def parsed(text: str, where: str) -> Manifest:
    """The manifest of a text that was found at `where`; raises BadInput as `read` does."""
    try:
        value = json.loads(text)
        manifest = Manifest(
            files=tuple(Entry(**entry) for entry in value["files"]),
            counts=value["counts"],
            params=value["params"],
            made_from=value["from"],
            tool=value["tool"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(where, error) from error
    if value["sha256"] != manifest.sha256:
        raise BadInput(
            f"{where} was edited", f"sha256 {value['sha256']}", f"sha256 {manifest.sha256}", "make the folder again"
        )
    return manifest


def _unreadable(where: str, error: Exception) -> BadInput:
    return BadInput(f"{where} cannot be read", "a manifest that Podium wrote", f"{error!r}", "make the folder again")


def differences(folder: Path, manifest: Manifest, depth: str = "full") -> list[str]:
    """Every way in which `folder` differs from its manifest, one sentence each; none is hidden by the first.

    `depth`: "quick" compares names and sizes, "full" also every hash.
    """
    present = {str(path) for path in files.walk(folder)} - {NAME}
    expected = {entry.path: entry for entry in manifest.files}
    problems = [f"{path}: not in the manifest" for path in sorted(present - expected.keys())]
    problems += [f"{path}: missing" for path in sorted(expected.keys() - present)]
    common = [expected[path] for path in sorted(present & expected.keys())]
    for entry in common:
        size = os.stat(f"{folder}/{entry.path}").st_size  # noqa: PTH116 - tens of thousands
        if size != entry.bytes:
            problems.append(f"{entry.path}: {entry.bytes} bytes expected, {size} found")
        elif depth == "full" and (found := files.hash_file(folder / entry.path)) != entry.sha256:
            problems.append(f"{entry.path}: sha256 {entry.sha256} expected, {found} found")
    return problems


def entry(folder: Path, path: Path) -> Entry:
    """One file of a folder, by its path there."""
    return Entry(str(path), (folder / path).stat().st_size, files.hash_file(folder / path))


def total_bytes(entries: Sequence[Entry]) -> int:
    """Sum of the sizes in bytes."""
    return sum(entry.bytes for entry in entries)
