"""The index of the history: an SQLite file that is made from the records and can be thrown away.

It is never changed in place. A refresh copies it, adds the records that it lacks, and renames the copy over it; so it
needs none of SQLite's locks, nor its write-ahead log, which wants all its readers on one machine (sqlite.org/wal.html).
Of two refreshes at once one is lost, and what it had added is found missing by the next: the records are the truth.
Where nothing can be written, the index is made in memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from podium import progress
from podium.nightly import history
from podium.nightly.history import Record

NAME = "index.sqlite"
VERSION = 1
GONE = "gone: the record was there once"
SCHEMA = """
CREATE TABLE files (path TEXT PRIMARY KEY, problem TEXT) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, path TEXT, night TEXT, started TEXT, system TEXT, benchmark TEXT, config TEXT,
    number INTEGER, outcome TEXT, node TEXT, environment TEXT, folder TEXT, log TEXT,
    UNIQUE (night, system, benchmark, config, number, log)
);
CREATE TABLE measures (run INTEGER, metric TEXT, value REAL);
"""


@dataclass(frozen=True)
class Run:
    """A record as the judgement needs it; `node` is empty where the run took several."""

    path: str
    night: str
    system: str
    benchmark: str
    config: str
    number: int
    outcome: str
    node: str
    environment: str
    folder: str
    log: str


@dataclass(frozen=True)
class Index:
    """All runs in the order of their nights; `measures` are (position in `runs`, metric, value)."""

    runs: tuple[Run, ...]
    measures: tuple[tuple[int, str, float], ...]
    problems: tuple[str, ...]

    def nights(self) -> list[str]:
        return sorted({run.night for run in self.runs}, key=history.order)


def refresh(root: Path, anew: bool = False) -> Index:
    """Bring the index up to date with the records and read it; `anew` makes it from nothing.

    What cannot be read is among the problems. A record that an index once knew and that is gone is told as long as that
    index lives.
    """
    present = set(history.paths(root))
    try:
        if not anew and (found := _extended(root, present)):
            return found
    except sqlite3.DatabaseError:
        pass  # there is none, or it is damaged
    except OSError:
        return _made(None, root, present)
    try:
        with _replacing(root / NAME) as fresh:
            return _made(fresh, root, present)
    except (OSError, sqlite3.OperationalError):
        return _made(None, root, present)


def _extended(root: Path, present: set[str]) -> Index | None:
    """The index, with the records that it lacked; None for one of another version."""
    path = root / NAME
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1&mode=ro", uri=True)) as base:
        if base.execute("PRAGMA user_version").fetchone() != (VERSION,):
            return None
        known = dict(base.execute("SELECT path, problem FROM files"))
        gone = [name for name in known if name not in present]
        if present <= known.keys() and all(known[name] == GONE for name in gone):
            return _read(base)
    with _replacing(path) as fresh:
        shutil.copyfile(path, fresh)
        with contextlib.closing(_open(fresh)) as base:
            base.executemany("UPDATE files SET problem = ? WHERE path = ?", [(GONE, name) for name in gone])
            _add(base, root, sorted(present - known.keys()))
            return _read(base)


def _made(path: Path | None, root: Path, present: set[str]) -> Index:
    """An index from nothing, in an empty file or, where nothing can be written, in memory."""
    with contextlib.closing(_open(path)) as base:
        base.executescript(f"PRAGMA user_version = {VERSION};{SCHEMA}")
        _add(base, root, sorted(present))
        return _read(base)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A private file beside `path` that becomes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def with_records(index: Index, records: Iterable[Record]) -> Index:
    """The index with runs that could not be written: a full disk must not cost the night its verdict."""
    runs, measures = list(index.runs), list(index.measures)
    known = {(run.night, run.system, run.benchmark, run.config, run.number, run.log) for run in runs}
    for record in records:
        if record.identity not in known:
            measures += [(len(runs), metric, value) for metric, value in record.values.items()]
            night, _, *rest = _row(record)
            runs.append(Run("", night, *rest))
    return Index(tuple(runs), tuple(measures), index.problems)


def _read(base: sqlite3.Connection) -> Index:
    base.commit()
    rows = base.execute(
        "SELECT id, path, night, system, benchmark, config, number, outcome, node, environment, folder, log FROM runs"
    ).fetchall()
    rows.sort(key=lambda row: (history.order(row[2]), row[3:7]))
    place = {row[0]: position for position, row in enumerate(rows)}
    measures = tuple((place[run], *rest) for run, *rest in base.execute("SELECT run, metric, value FROM measures"))
    problems = tuple(
        f"history/{path}: {why}" for path, why in base.execute("SELECT * FROM files WHERE problem NOT NULL")
    )
    return Index(tuple(Run(*row[1:]) for row in rows), measures, problems)


def _open(path: Path | None) -> sqlite3.Connection:
    """A connection for writing a file that nobody else knows: no journal, no locks."""
    base = sqlite3.connect(f"file:{path}?nolock=1" if path else ":memory:", uri=path is not None)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    return base


def _add(base: sqlite3.Connection, root: Path, names: list[str]) -> None:
    for name in progress.bar(names, "index", len(names), "run"):
        record, problem = None, None
        try:
            record = history.read(root / "history" / name)
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = str(error) or type(error).__name__
        if record is not None:
            try:
                cursor = base.execute(f"INSERT INTO runs VALUES (NULL{', ?' * 12})", (name, *_row(record)))
                measures = [(cursor.lastrowid, metric, value) for metric, value in record.values.items()]
                base.executemany("INSERT INTO measures VALUES (?, ?, ?)", measures)
            except sqlite3.IntegrityError:
                problem = f"the run is there twice: {' '.join(map(str, record.identity))}; the first one counts"
        base.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (name, problem))


def _row(record: Record) -> tuple[object, ...]:
    node = record.nodes[0] if len(record.nodes) == 1 else ""
    return (
        record.night,
        record.started,
        record.system,
        record.benchmark,
        record.config,
        record.number,
        record.outcome,
        node,
        record.environment,
        record.folder,
        record.log,
    )
