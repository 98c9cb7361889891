"""The ledger of a result: every attempt, counted or not, in launch order, in a chain that shows an edit.

`runs/<system>/<benchmark>/ledger.jsonl` gets one line when an attempt is launched and one when it has ended; each line
holds the hash of the line before. `<attempt>/run.json` is the attempt's record and holds the hash of the record that
ended before it. Attempts are never deleted or renumbered; a wanted run whose attempt failed gets a new number.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import files
from podium.errors import BadInput

NAME = "ledger.jsonl"
COUNTABLE = ("converged", "not_converged")  # a training that ran to its end; all else failed for want of a machine


@dataclass(frozen=True)
class Attempt:
    """One launched run. `wanted` is the run of the result that it was launched for; `record` is its run.json.

    `ended` without a record: its folder was removed.
    """

    number: int
    wanted: int
    seed: int
    fingerprint: str
    record: Mapping[str, Any] | None
    ended: bool = False

    @property
    def outcome(self) -> str:
        """converged, not_converged, failed or cancelled; `open` while it has not ended, or nobody saw it end."""
        return self.record["outcome"] if self.record else "open"

    @property
    def countable(self) -> bool:
        return self.outcome in COUNTABLE


def attempts(folder: Path) -> list[Attempt]:
    """Every attempt of a result in launch order; one whose folder was deleted is `open`, with no record."""
    lines = _lines(folder)
    ended = {line["attempt"] for line in lines if line["event"] == "ended"}
    return [
        Attempt(
            line["attempt"],
            line["wanted"],
            line["seed"],
            line["fingerprint"],
            _record(folder, line["attempt"]),
            line["attempt"] in ended,
        )
        for line in lines
        if line["event"] == "launched"
    ]


def current(all: Sequence[Attempt]) -> list[Attempt]:
    """The attempts made with what the newest one was made with; older ones stay in the ledger, for another result."""
    return [attempt for attempt in all if attempt.fingerprint == all[-1].fingerprint] if all else []


def launch(folder: Path, wanted: int, fingerprint: str, planned: int) -> Attempt:
    """Enter a new attempt for run `wanted`: its number, and a seed that no attempt of this result had before.

    The number is `wanted` where no attempt had it yet, else the next one from `planned` on. How many runs are planned
    is decided before the first (training rules, run selection): raises BadInput where it was another number then.
    """
    with files.locked(folder / ".ledger.lock"):
        known = [line for line in _lines(folder) if line["event"] == "launched"]
        before = [line.get("planned", planned) for line in known if line["fingerprint"] == fingerprint]
        if before and before[0] != planned:
            raise BadInput(
                f"{planned} attempts are wanted in {folder}",
                f"{before[0]}, as when the first was launched: a result may not get more runs once some are known",
                str(planned),
                f"set attempts: {before[0]} in the config; another image, data or config begins a new result",
            )
        used = {line["attempt"] for line in known}
        number = wanted if wanted not in used else max(planned, max(used) + 1)
        seeds = {line["seed"] for line in known}
        seed = next(seed for seed in iter(_draw, None) if seed not in seeds)
        (folder / str(number)).mkdir(parents=True, exist_ok=True)
        who = {"attempt": number, "wanted": wanted, "seed": seed, "fingerprint": fingerprint}
        entry = {"event": "launched", **who, "planned": planned}
        _append(folder, entry)
    return Attempt(number, wanted, seed, fingerprint, None)


def close(folder: Path, attempt: Attempt, facts: Mapping[str, Any]) -> Attempt:
    """Write the attempt's record and enter its end; the record holds the hash of the one that ended before it."""
    with files.locked(folder / ".ledger.lock"):
        ended = [line for line in _lines(folder) if line["event"] == "ended"]
        record = {**facts, "previous": ended[-1]["record"] if ended else None}
        path = folder / str(attempt.number) / "run.json"
        files.write_json(path, record)
        entry = {
            "event": "ended",
            "attempt": attempt.number,
            "outcome": facts["outcome"],
            "record": files.hash_file(path),
        }
        _append(folder, entry)
    return Attempt(attempt.number, attempt.wanted, attempt.seed, attempt.fingerprint, record, ended=True)


def problems(folder: Path) -> list[str]:
    """Everything that shows that the ledger and the attempts do not fit each other, one sentence each."""
    found: list[str] = []
    previous = None
    records: dict[int, str] = {}
    for number, text in enumerate(_texts(folder), 1):
        line = json.loads(text)
        if line["previous"] != previous:
            found.append(f"{NAME}:{number}: the line before it was edited or removed")
        previous = _digest(text)
        if line["event"] == "ended":
            records[line["attempt"]] = line["record"]
    for attempt, digest in sorted(records.items()):
        path = folder / str(attempt) / "run.json"
        if not path.exists():
            continue
        if files.hash_file(path) != digest:
            found.append(f"{attempt}/run.json: sha256 {digest} expected, another found: the record was edited")
        else:
            found += _log_problems(folder / str(attempt), files.read_json(path))
    return found


def removed(folder: Path) -> list[str]:
    """Attempts that ended and whose records are gone, one sentence each; the ledger still holds what they were."""
    ended = [line for line in _lines(folder) if line["event"] == "ended"]
    return [
        f"attempt {line['attempt']} ({line['outcome']}): its folder was removed, record {line['record'][:12]}… is lost"
        for line in ended
        if _record(folder, line["attempt"]) is None
    ]


def _log_problems(folder: Path, record: Mapping[str, Any]) -> list[str]:
    log = record["log"]
    path = folder / "result.txt"
    name = f"{folder.name}/result.txt"
    if not path.exists():
        return [f"{name}: missing, though the record names it"]
    if (found := files.hash_file(path)) != log["sha256"]:
        return [f"{name}: sha256 {log['sha256']} expected, {found} found: the log was edited after the run"]
    return []


def _record(folder: Path, number: int) -> Mapping[str, Any] | None:
    path = folder / str(number) / "run.json"
    return files.read_json(path) if path.exists() else None


def _texts(folder: Path) -> list[str]:
    path = folder / NAME
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in _texts(folder)]


def _append(folder: Path, entry: Mapping[str, Any]) -> None:
    texts = _texts(folder)
    line = {**entry, "time": files.now(), "previous": _digest(texts[-1]) if texts else None}
    # Rewritten whole: a line that a dying process wrote by half would break the chain for good.
    files.write_text(folder / NAME, "".join(text + "\n" for text in [*texts, json.dumps(line)]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _draw() -> int:
    """A seed from the system's randomness (training rules: clock or /dev/urandom), 32 bits as frameworks want."""
    return int.from_bytes(os.urandom(4), "big")
