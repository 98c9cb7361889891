"""The scrub of a submission tree: what must not leave the site is replaced, alike everywhere; some files stay behind.

The same value gets the same placeholder in every file, numbered in the order of the values, so that the same inputs
give the same tree. Every replacement is in a diff beside the tree, for review; the logs in the work root stay as they
were.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Any

from podium import files, manifest
from podium.errors import BadInput
from podium.manifest import Entry
from podium.package.detect import Detectors, Found, Names

# Files that are somebody's keys, or under a licence of their own, by name; detect.py knows what their heads say.
WITHHELD = (
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.keytab", "id_rsa*", "id_ed25519*", "id_ecdsa*", "kubeconfig*", "*.kdbx"),
    *("credentials", "credentials.json", "netrc", "_netrc", "*.lic", "license.dat", "*.license"),
)
HEAD = 4096  # bytes in which a licence says so
SHORTEST = 8  # characters of a secret that is looked for everywhere once it was found somewhere


@dataclass(frozen=True)
class Scrubbed:
    """What the scrub did: `replaced` counts each value's places by file, `withheld` says why; `diff` is for review;
    `entries` are the files that the tree now has."""

    placeholders: Mapping[tuple[str, str], str]
    replaced: Mapping[str, Mapping[tuple[str, str], int]]
    withheld: Mapping[str, str]
    diff: str
    entries: tuple[Entry, ...]

    def as_json(self) -> dict[str, Any]:
        """For the record: placeholders, kinds and files, and none of the values."""
        found = []
        for key, placeholder in self.placeholders.items():
            where = {path: counts[key] for path, counts in self.replaced.items() if key in counts}
            if where:
                about = {"placeholder": placeholder, "kind": key[0], "places": sum(where.values()), "files": where}
                found.append(about)
        return {"replaced": found, "withheld": dict(self.withheld), "changed": sorted(self.replaced)}


@dataclass(frozen=True)
class _Look:
    """What one look at a file tells: its entry, what is in it, and why it has to stay behind ("" where it may go)."""

    entry: Entry
    found: list[Found]
    withheld: str


def scrub(tree: Path, names: Names, withhold: Sequence[str] = (), allowed_files: Sequence[str] = ()) -> Scrubbed:
    """Replace in every file of `tree` what must not leave, and remove the files that must not.

    `withhold` are further names (with * and ?) of files that stay behind, `allowed_files` paths in the tree that may go
    whatever they are called or say. Raises BadInput for a file whose own name gives something away.
    """
    looks = _look_at_all(tree, files.walk(tree), names, withhold, allowed_files)
    secrets = {item.value for look in looks if not look.withheld for item in look.found if item.kind == "secret"}
    if known := tuple(sorted(value for value in secrets if len(value) >= SHORTEST and "\n" not in value)):
        looks = _look_at_all(tree, files.walk(tree), replace(names, secrets=known), withhold, allowed_files)
    withheld = {look.entry.path: look.withheld for look in looks if look.withheld}
    kept = [look for look in looks if not look.withheld]
    _check_names([look.entry.path for look in kept], names)
    found = {look.entry.path: look.found for look in kept if look.found}
    placeholders = _placeholders(found.values())
    diffs = [_replace(tree, path, items, placeholders) for path, items in found.items()]
    for path in withheld:
        (tree / path).unlink()
    return Scrubbed(
        placeholders,
        {path: Counter((item.kind, item.value) for item in items) for path, items in found.items()},
        withheld,
        "".join(diffs),
        tuple(manifest.entry(tree, Path(look.entry.path)) if look.found else look.entry for look in kept),
    )


def _look_at_all(
    tree: Path, paths: Sequence[Path], names: Names, withhold: Sequence[str], allowed: Sequence[str]
) -> list[_Look]:
    """A look at every file, read once; RE2, hashing and reading let threads run side by side."""
    detectors = Detectors(names)
    kept = re.compile("|".join(map(translate, (*WITHHELD, *withhold))))

    def look(path: str) -> _Look:
        with open(f"{tree}/{path}", "rb") as file:  # noqa: PTH123 - Path costs more than a small file
            data = file.read()
        entry = Entry(path, len(data), hashlib.sha256(data).hexdigest())
        found = detectors.find(data)
        return _Look(entry, found, "" if any(fnmatchcase(path, item) for item in allowed) else why(path, data, found))

    def why(path: str, data: bytes, found: Sequence[Found]) -> str:
        name = path.rpartition("/")[2]
        if kept.match(name) or kept.match(path):
            return "its name is that of a key or a licensed file"
        if not path.startswith("results/") and (said := detectors.licence(data[:HEAD])):
            return f"it says {said!r}"
        return f"a binary file that holds a {found[0].kind}" if found and b"\0" in data[:8192] else ""

    with ThreadPoolExecutor() as pool:
        return list(pool.map(look, map(str, paths), chunksize=64))


def _check_names(paths: Iterable[str], names: Names) -> None:
    detectors = Detectors(names)
    wrong = [path for path in paths if detectors.find(path.encode())]
    if wrong:
        raise BadInput(
            "names of files give away what must not leave",
            "names without hosts, users and keys",
            "\n    ".join(wrong[:10]),
            "rename them in the implementation, or list what may stay under package.scrub.allow",
        )


def _placeholders(found: Iterable[Sequence[Found]]) -> dict[tuple[str, str], str]:
    """A name for each value, numbered by kind in the order of the values."""
    values = sorted({(item.kind, item.value) for items in found for item in items})
    numbers: Counter[str] = Counter()
    names = {}
    for kind, value in values:
        numbers[kind] += 1
        name = f"SCRUBBED_{re.sub(r'[^A-Z0-9]+', '_', kind.upper())}_{numbers[kind]}"
        names[kind, value] = f"/{name}" if kind == "path" else name
    return names


def _replace(tree: Path, path: str, items: Sequence[Found], placeholders: Mapping[tuple[str, str], str]) -> str:
    """Write the file anew with its placeholders; returns its part of the diff."""
    target = tree / path
    data, mode = target.read_bytes(), target.stat().st_mode
    parts, hunks, place, shift = [], [], 0, 0
    for region in _regions(data, items):
        start, stop = region[0]
        new, at = b"", start
        for item in region[1]:
            new += data[at : item.start] + placeholders[item.kind, item.value].encode("latin-1")
            at = item.stop
        new += data[at:stop]
        parts += [data[place:start], new]
        place = stop
        hunk, shift = _hunk(data[start:stop], new, data.count(b"\n", 0, start) + 1, shift)
        hunks.append(hunk)
    target.write_bytes(b"".join([*parts, data[place:]]))
    target.chmod(mode)
    return f"--- {path}\n+++ {path} (scrubbed)\n{''.join(hunks)}"


def _regions(data: bytes, items: Sequence[Found]) -> Iterator[tuple[tuple[int, int], list[Found]]]:
    """The whole lines that change, each with the places in it; neighbours on one line together."""
    region: tuple[int, int] | None = None
    inside: list[Found] = []
    for item in items:
        start = data.rfind(b"\n", 0, item.start) + 1
        stop = data.find(b"\n", item.stop)
        stop = len(data) if stop < 0 else stop
        if region is not None and start < region[1]:
            region = (region[0], max(region[1], stop))
            inside.append(item)
            continue
        if region is not None:
            yield region, inside
        region, inside = (start, stop), [item]
    if region is not None:
        yield region, inside


def _hunk(old: bytes, new: bytes, line: int, shift: int) -> tuple[str, int]:
    before, after = (text.decode("utf-8", "backslashreplace").split("\n") for text in (old, new))
    head = f"@@ -{line},{len(before)} +{line + shift},{len(after)} @@\n"
    return head + "".join([*(f"-{text}\n" for text in before), *(f"+{text}\n" for text in after)]), (
        shift + len(after) - len(before)
    )
