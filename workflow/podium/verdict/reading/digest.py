"""All that a verdict needs to know of one log, read once: compliance, seeds, convergence. It can be kept as JSON."""

from __future__ import annotations

import functools
import json
import math
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium.verdict.official import convergence, seeds
from podium.verdict.official.compliance import Compliance, Fall, Message
from podium.verdict.official.convergence import Convergence
from podium.verdict.official.seeds import Seed, Seeds
from podium.verdict.reading import logs
from podium.verdict.reading.logs import Broken, LogLine

BROKEN = 16 << 20  # characters of broken lines that are kept to be told; a log can consist of nothing else


@dataclass(frozen=True)
class Point:
    """A convergence point as the RCP checker reads it; `fall` where it cannot."""

    batch_size: Any
    benchmark: Any
    converged: bool
    point: Any
    fall: Fall | None


@dataclass(frozen=True)
class Digest:
    """One log under one round. `epochs` and `samples` are the two ways to read the convergence point of bert.

    `rehearsal` is the line that says that nothing was trained, 0 where none does.
    `minutes` is the time to train as the official summarizer takes it, from the last run_start before the first
    run_stop; None where one is missing or no number.
    `compliant` is None where the official checker has no answer; `fall` then says why.
    """

    compliant: bool | None
    warnings: tuple[Message, ...]
    errors: tuple[Message, ...]
    broken: tuple[Broken, ...]
    fall: Fall | None
    seeds: Seeds
    epochs: Point
    samples: Point
    benchmark: Any
    division: Any
    minutes: float | None
    rehearsal: int

    def messages(self) -> list[str]:
        """What the official compliance checker logs about the log, in its order and words."""
        said = []
        if self.broken and self.compliant is not None:
            said.append(" Found parsing errors:")
            for item in self.broken:
                said += [f"  {item.text}", f"   ^^  {item.why}"]
        if self.warnings or self.errors:
            said.append(" " + ("\n" + "-" * 30 + "\n").join(item.text for item in (*self.warnings, *self.errors)))
        return said

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def unreadable(why: str) -> Digest:
    """The digest of a log that cannot be opened or is no file; the official tool falls over it."""
    fall = Fall("log-unreadable", why, 0, "a file that can be read", why)
    point = Point(-1, None, False, convergence.NEVER, fall)
    return Digest(None, (), (), (), fall, Seeds((), why), point, point, None, None, None, 0)


def of_log(path: Path, round: str) -> Digest:
    """Read a log under the rules of a round; never raises for what the log or the file system holds."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return unreadable("no regular file")
        return _read(path, round)
    except OSError as error:
        return unreadable(error.strerror or str(error))


def from_json(value: Mapping[str, Any]) -> Digest:
    """The digest that `as_json` wrote."""
    return Digest(
        compliant=value["compliant"],
        warnings=tuple(Message(**item) for item in value["warnings"]),
        errors=tuple(Message(**item) for item in value["errors"]),
        broken=tuple(Broken(**item) for item in value["broken"]),
        fall=Fall(**value["fall"]) if value["fall"] else None,
        seeds=Seeds(
            tuple(Seed(**item) for item in value["seeds"]["found"]), value["seeds"]["error"], value["seeds"]["line"]
        ),
        epochs=_point(value["epochs"]),
        samples=_point(value["samples"]),
        benchmark=value["benchmark"],
        division=value["division"],
        minutes=value["minutes"],
        rehearsal=value["rehearsal"],
    )


def _point(value: Mapping[str, Any]) -> Point:
    return Point(**{**value, "fall": Fall(**value["fall"]) if value["fall"] else None})


def _read(path: Path, round: str) -> Digest:
    compliance = Compliance(round)
    readers = (_Reader(Convergence(round)), _Reader(Convergence(round, train_samples=True)))
    broken: list[Broken] = []
    seeded: list[LogLine] = []
    first: dict[str, Any] = {}
    clock: dict[str, float] = {}
    rehearsal = 0
    room = BROKEN
    for item in logs.records(path):
        if isinstance(item, Broken):
            text = item.text
            room -= len(text)
            if room > 0 or not broken or (item.fatal and not any(known.fatal for known in broken)):
                broken.append(item)
        else:
            compliance.feed(item)
            text = item.full_string
            if item.key == "seed":
                seeded.append(item)
            elif item.key in ("submission_benchmark", "submission_division"):
                first.setdefault(item.key, item.value["value"])
            elif item.key in ("run_start", "run_stop") and len(clock) < 2:
                clock[item.key] = item.timestamp
            elif item.key == logs.REHEARSAL:
                rehearsal = rehearsal or item.line
        if convergence.concerns(text):
            for reader in readers:
                reader.feed(item, text)
    # The official parser comes first: where it falls over, nothing else is asked.
    fall = next((_fatal(item) for item in broken if item.fatal), None)
    said = [Message("Log lines had parsing errors.", "log-json", "", broken[0].line)] if broken else []
    outcome = None if fall else compliance.finish(lambda: _lines(path), said)
    return Digest(
        compliant=outcome.passed if outcome else None,
        warnings=outcome.warnings if outcome else (),
        errors=outcome.errors if outcome else (),
        broken=tuple(broken),
        fall=fall or compliance.fall,
        seeds=seeds.collect(seeded, broken),
        epochs=readers[0].point(),
        samples=readers[1].point(),
        benchmark=first.get("submission_benchmark"),
        division=first.get("submission_division"),
        minutes=_minutes(clock.get("run_start"), clock.get("run_stop")),
        rehearsal=rehearsal,
    )


def _minutes(start: float | None, stop: float | None) -> float | None:
    """As the official summarizer takes the time of a run; timestamps are milliseconds."""
    if start is None or stop is None or not math.isfinite(stop - start):
        return None
    return (stop - start) / 60 / 1000


def _fatal(item: Broken) -> Fall:
    return Fall("log-record", item.fatal, item.line, "a record with time_ms, key, value and metadata", item.why)


def _lines(path: Path) -> Iterator[LogLine]:
    return (item for item in logs.records(path) if isinstance(item, LogLine))


class _Reader:
    """The RCP checker's reader until it falls over; from there on it has no answer."""

    def __init__(self, found: Convergence) -> None:
        self._found = found
        self._fall: Fall | None = None

    def feed(self, item: LogLine | Broken, text: str) -> None:
        if self._fall is not None:
            return
        if isinstance(item, Broken):
            read = functools.partial(json.loads, text[len(logs.TOKEN) :])
        else:
            record = {"key": item.key, **item.value}
            read = lambda: record  # noqa: E731
        try:
            self._found.feed(text, read)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            expected = "an evaluation with its place, a batch size, a status"
            self._fall = Fall("rcp-unreadable", f"{type(error).__name__}: {error}", item.line, expected, text[:200])

    def point(self) -> Point:
        found = self._found
        return Point(found.batch_size, found.benchmark, found.converged, found.point, self._fall)
