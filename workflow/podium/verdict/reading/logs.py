"""MLLOG lines of a result file, read as the official parser reads them (mlperf_logging mlp_parser, rulesets >= 0.7).

Text is latin-1 and a line ends at LF, CR or CRLF. A line counts when it holds `:::MLLOG `; what stands before the last
such token is dropped; the rest must be JSON with `time_ms`, `key`, `value` and `metadata`. Files are read in pieces, so
that a log of any size needs little memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

TOKEN = ":::MLLOG "
QUALITY = "eval_accuracy"  # the key of MLPerf's evaluations
REHEARSAL = "podium_rehearsal"  # the key that a rehearsal of ours puts first into its log: nothing was trained
PIECE = 1 << 20  # bytes read at once
LONGEST = 4 << 20  # bytes of one record; of a longer one (none is known) the middle is dropped, and it is broken

_TOKEN = TOKEN.encode()
_decode = json.JSONDecoder().decode
_scan = json.JSONDecoder().scan_once


@dataclass(slots=True)
class LogLine:
    """One record, with the names that the official rule files use.

    `timestamp` is milliseconds since the epoch, `value` holds "value" and "metadata", `lineno` counts the MLLOG lines
    from 0; `line` is ours and counts the lines of the file from 1.
    """

    full_string: str
    timestamp: float
    key: Any
    value: dict[str, Any]
    lineno: int
    line: int = 0


@dataclass(frozen=True)
class Broken:
    """A line with the token that is no record. `why` is what the official parser says of it; `fatal` is the exception
    with which it falls over, where it does."""

    line: int
    text: str
    why: str
    fatal: str = ""


@dataclass(frozen=True)
class Evaluation:
    """One eval_accuracy: where in the training it was (epochs or samples), its value, minutes since run_start."""

    epoch: float
    value: float
    minutes: float


@dataclass(frozen=True)
class Run:
    """What one result log says. Times are in milliseconds since the epoch; None where the log is silent."""

    status: str | None
    started: float | None
    stopped: float | None
    init_started: float | None
    seed: int | None
    batch_size: int | None
    evaluations: tuple[Evaluation, ...]
    broken: tuple[Broken, ...]
    events: int
    rehearsal: bool

    @property
    def minutes(self) -> float | None:
        """Time to train in minutes: run_stop - run_start, the score of the run."""
        if self.started is None or self.stopped is None:
            return None
        return (self.stopped - self.started) / 60_000

    @property
    def converged(self) -> bool:
        return self.status == "success"


def texts(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Every line with the token: its number in the file, and its text from the last token on, stripped."""
    number, rest = 1, b""
    while piece := file.read(PIECE):
        block = rest + piece
        # A CR at the very end may be the first half of a CRLF: it stays for the next piece.
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        yield from _texts(block[:end], number)
        number += block.count(b"\n", 0, end)
        rest = block[end:]
        if _TOKEN not in rest:
            rest = rest[1 - len(_TOKEN) :]
        elif len(rest) > LONGEST:
            rest = rest[rest.rfind(_TOKEN) :]
            rest = rest[:LONGEST] + rest[LONGEST:][1 - len(_TOKEN) :]
    yield from _texts(rest, number)


def _texts(block: bytes, number: int) -> Iterator[tuple[int, str]]:
    counted = place = 0
    while (found := block.find(_TOKEN, place)) >= 0:
        end = block.find(b"\n", found)
        end = len(block) if end < 0 else end
        if (carriage := block.find(b"\r", found, end)) >= 0:
            end = carriage
        number += block.count(b"\n", counted, found)
        yield number, block[block.rfind(_TOKEN, found, end) : end].decode("latin-1").strip()
        counted, place = found, end


def parse(text: str, lineno: int, line: int) -> LogLine:
    """One record from its text.

    Raises ValueError where the official parser reports an error; any other exception is one that it does not catch.
    """
    record = _object(text)
    # In the order of the official parser: of several missing names it complains of the first.
    timestamp, key = float(record["time_ms"]), record["key"]
    return LogLine(text, timestamp, key, {"value": record["value"], "metadata": record["metadata"]}, lineno, line)


def _object(text: str) -> Any:
    """The JSON after the token. The scanner alone is faster, the decoder's errors are the official ones."""
    if not text.startswith(TOKEN):
        raise ValueError("does not match regex")
    try:
        record, end = _scan(text, len(TOKEN))
    except (StopIteration, ValueError):
        end = 0
    if end != len(text):
        record = _decode(text[len(TOKEN) :])
    if record is None:
        raise ValueError("does not match regex")
    return record


def records(path: Path) -> Iterator[LogLine | Broken]:
    """Every record of a log in file order, broken ones too. Raises OSError when the file cannot be read."""
    with path.open("rb", buffering=0) as file:
        for lineno, (line, text) in enumerate(texts(file)):
            try:
                yield parse(text, lineno, line)
            except ValueError as error:
                yield Broken(line, text, str(error))
            except KeyError as error:
                yield Broken(line, text, f"no {error.args[0]}", repr(error))
            except (TypeError, OverflowError, RecursionError) as error:
                yield Broken(line, text, str(error), repr(error))


def read(path: Path, quality: str = QUALITY) -> Run:
    """Read a result log; never raises for its content. `quality` is the key of its evaluations."""
    return summarise(records(path), quality)


def summarise(items: Iterable[LogLine | Broken], quality: str = QUALITY) -> Run:
    """The run that the records tell of: the first run_start and run_stop, every evaluation between."""
    first: dict[str, LogLine] = {}
    evaluations: list[Evaluation] = []
    broken: list[Broken] = []
    count = 0
    for item in items:
        if isinstance(item, Broken):
            broken.append(item)
            continue
        count += 1
        if not isinstance(item.key, str) or not math.isfinite(item.timestamp):
            continue
        first.setdefault(item.key, item)
        if item.key == quality:
            start = first["run_start"].timestamp if "run_start" in first else item.timestamp
            place = metadata(item)
            epoch = place.get("epoch_num", place.get("samples_count"))
            if _number(item.value["value"]) and _number(epoch):
                minutes = (item.timestamp - start) / 60_000
                evaluations.append(Evaluation(float(epoch), float(item.value["value"]), minutes))
    stop = first.get("run_stop")
    return Run(
        status=str(metadata(stop).get("status")) if stop else None,
        started=first["run_start"].timestamp if "run_start" in first else None,
        stopped=stop.timestamp if stop else None,
        init_started=first["init_start"].timestamp if "init_start" in first else None,
        seed=_whole(first.get("seed")),
        batch_size=_whole(first.get("global_batch_size")),
        evaluations=tuple(evaluations),
        broken=tuple(broken),
        events=count,
        rehearsal=REHEARSAL in first,
    )


def metadata(line: LogLine) -> dict[str, Any]:
    """The metadata of a record; empty where it is no object."""
    found = line.value["metadata"]
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _whole(line: LogLine | None) -> int | None:
    return int(line.value["value"]) if line is not None and _number(line.value["value"]) else None
