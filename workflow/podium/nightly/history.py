"""The history: one JSON file for each run of each night, and one for each mark; written once, never again.

    <root>/nightly/history/<night>/<system>.<benchmark>.<number>-<hash>.json
    <root>/nightly/environments/<hash>.json     what runs were made with, once for all that share it
    <root>/nightly/marks/<night>-<hash>.json

A file is named after the sha256 of its content and renamed into place whole. So two nights at once, on any file system,
cannot overwrite each other; writing a record again changes nothing; and a file that was cut short or edited is known by
its name. No lock is needed, and nothing is ever counted up.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium import files
from podium.config import Config
from podium.errors import BadInput

FORMAT = 1
NIGHT = re.compile(r"\d{4}-\d\d-\d\d(\.\d{1,4})?")
LEVEL, VOID, RENAMED = "level", "void", "renamed"


@dataclass(frozen=True)
class Record:
    """One run of one night, with all that is judged, shown or compared later.

    `config` names the settings and how the run was cut short: runs of another config are another series. `outcome` is
    converged, not_converged, cut, failed. `values` are the measures (measure.METRICS), `steps` the distribution of step
    times (source, count, quantiles), `curve` up to 32 evaluations (samples or epochs, quality). `environment` is the
    hash of what it ran on; `notes` say in words what could not be measured, and what speaks against trusting the rest.
    """

    night: str
    started: str | None
    system: str
    benchmark: str
    config: str
    number: int
    outcome: str
    nodes: tuple[str, ...]
    environment: str
    values: Mapping[str, float]
    steps: Mapping[str, Any]
    curve: tuple[tuple[float, float], ...]
    cache: str
    notes: tuple[str, ...]
    folder: str
    log: str

    @property
    def identity(self) -> tuple[str, str, str, str, int, str]:
        return (self.night, self.system, self.benchmark, self.config, self.number, self.log)


@dataclass(frozen=True)
class Mark:
    """Something known of a night, for one system or benchmark or for all (None).

    `level`: a new level begins with the night, what was before is no measure for it. `void`: the night counts for
    nothing. `renamed`: from that night on `system` is what `was` was before.
    """

    kind: str
    night: str
    system: str | None
    benchmark: str | None
    was: str | None
    text: str
    time: str

    def covers(self, system: str, benchmark: str) -> bool:
        return self.system in (None, system) and self.benchmark in (None, benchmark)


def folder(config: Config) -> Path:
    return config.root / "nightly"


def night_name(text: str) -> str:
    """A night's name: a date, and `.2`, `.3` for more of the same date. Raises BadInput for anything else."""
    try:
        datetime.date.fromisoformat(text[:10])
    except ValueError:
        known = False
    else:
        known = NIGHT.fullmatch(text) is not None
    if not known:
        raise BadInput(
            f"no night is called {text!r}", "a date like 2026-11-30, or 2026-11-30.2", text, "podium nightly show"
        )
    return text


def order(night: str) -> tuple[str, int]:
    """The key that puts nights in their order: `2026-11-30.10` comes after `2026-11-30.9`."""
    date, _, more = night.partition(".")
    return date, int(more or 1)


def write(root: Path, record: Record, facts: Mapping[str, Any]) -> Path:
    """Add one run and what it was made with (`record.environment` is its hash), once for all that share it.

    `root` is the nightly folder. Raises BadEnvironment where it cannot be written.
    """
    path = root / "environments" / f"{record.environment}.json"
    if not path.exists():
        files.write_json(path, facts)
    name = f"{record.system}.{record.benchmark}.{record.number}"
    return _add(root / "history" / record.night, name, {"format": FORMAT, **asdict(record)})


def write_mark(root: Path, mark: Mark) -> Path:
    return _add(root / "marks", mark.night, {"format": FORMAT, **asdict(mark)})


def environment(root: Path, digest: str) -> dict[str, Any] | None:
    """What a record was made with; None where that is gone or damaged."""
    try:
        facts = files.read_json(root / "environments" / f"{digest}.json")
    except (OSError, ValueError):
        return None
    return facts if files.hash_json(facts) == digest else None


def paths(root: Path) -> Iterator[str]:
    """Every record's path below the history folder, in the order of their names."""
    base = root / "history"
    for night in sorted(base.iterdir()) if base.is_dir() else ():
        if night.is_dir():
            yield from sorted(f"{night.name}/{path.name}" for path in night.iterdir() if not path.name.startswith("."))


def read(path: Path) -> Record:
    """Read a record; raises ValueError that says what is wrong with the file."""
    value = _checked(path)
    value["nodes"], value["notes"] = tuple(value["nodes"]), tuple(value["notes"])
    value["curve"] = tuple(tuple(point) for point in value["curve"])
    return Record(**value)


def marks(root: Path) -> tuple[list[Mark], list[str]]:
    """Every mark in the order they were made, and what is wrong with files that are none."""
    found, problems = [], []
    for path in sorted((root / "marks").glob("[!.]*")):
        try:
            found.append(Mark(**_checked(path)))
        except (OSError, ValueError, TypeError) as error:
            problems.append(f"marks/{path.name}: {error}")
    return sorted(found, key=lambda mark: mark.time), problems


def _add(base: Path, name: str, value: Mapping[str, Any]) -> Path:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    path = base / f"{name}-{_digest(text.encode())}.json"
    if not path.exists():
        files.write_text(path, text)
    return path


def _checked(path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    if path.stem.rpartition("-")[2] != _digest(text):
        raise ValueError("damaged: its content is not what its name says")
    value = json.loads(text)
    if value.pop("format", None) != FORMAT:
        raise ValueError(f"of another format than {FORMAT}")
    return value


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
