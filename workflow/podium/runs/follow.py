"""A run's log while it is written: how far it is, how fast, and what is wrong with it.

Each look reads only what was added since the last. What counts as wrong: a loss or quality that is no number, no line
for too long, a throughput that has fallen against the first blocks.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from podium.runs.launchers import OUTPUT
from podium.verdict.reading import logs

FIRST = 3  # blocks that the throughput of later ones is held against
_LOSS = re.compile(rb"\bloss\b[\"'\s:=]{1,4}(nan|[-+]?inf)\b", re.IGNORECASE)


@dataclass
class Follower:
    """One attempt's log, read bit by bit; `folder` is the attempt's, `key` that of its evaluations.

    `quality` is the last evaluation, `place` where it was (epochs or samples), `started` the time of run_start in
    milliseconds, `not_a_number` the first value that was none, `changed` when the log last grew (this machine's
    monotonic clock: a stepped clock must not look like a hang).
    """

    folder: Path
    key: str = logs.QUALITY
    started: float | None = None
    stopped: bool = False
    samples: float | None = None
    quality: float | None = None
    place: float | None = None
    loss: float | None = None
    not_a_number: str | None = None
    changed: float = field(default_factory=time.monotonic)
    blocks: list[float] = field(default_factory=list)  # seconds of each
    speeds: list[float] = field(default_factory=list)  # samples a second that the log says itself
    _offsets: dict[Path, int] = field(default_factory=dict)
    _block: float | None = None
    _source: Path | None = None

    def look(self) -> None:
        """Read what is new; a file that cannot be read now is read later."""
        for path in (*sorted((self.folder / "logs").glob("*.txt")), self.folder / OUTPUT):
            if new := self._new(path):
                self.changed = time.monotonic()
                if found := _LOSS.search(new):
                    self.not_a_number = self.not_a_number or f"loss {found[1].decode()} in {path.name}"
                for line in new.splitlines():
                    if logs.TOKEN.encode() in line:
                        self._source = self._source or path  # what goes to the file and to the output counts once
                        if self._source == path:
                            self._take(line.decode("latin-1"))

    def fallen(self) -> float | None:
        """The throughput now as a share of that of the first blocks; None while there is too little to tell."""
        paces = self.speeds or [1 / seconds for seconds in self.blocks if seconds > 0]
        if len(paces) <= 2 * FIRST:
            return None
        return median(paces[-FIRST:]) / median(paces[:FIRST])

    def text(self) -> str:
        """How far the run is, in a few words."""
        if self.started is None:
            return "not started"
        parts = [f"quality {self.quality:.4g} at {self.place:g}" if self.quality is not None else "no evaluation yet"]
        parts += [f"loss {self.loss:.4g}"] if self.loss is not None else []
        parts += [f"{self.speeds[-1]:.4g} samples/s"] if self.speeds else []
        return ", ".join(parts)

    def _new(self, path: Path) -> bytes:
        """The whole lines that were added to a file since the last look."""
        try:
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read(4 << 20)
        except OSError:
            return b""
        data = data[: data.rfind(b"\n") + 1]
        self._offsets[path] = self._offsets.get(path, 0) + len(data)
        return data

    def _take(self, text: str) -> None:
        try:
            line = logs.parse(text[text.rfind(logs.TOKEN) :].strip(), 0, 0)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        value, place = line.value["value"], logs.metadata(line)
        match line.key:
            case "run_start":
                self.started = line.timestamp
            case "run_stop":
                self.stopped = True
            case "block_start":
                self._block = line.timestamp
            case "block_stop" if self._block is not None:
                self.blocks.append((line.timestamp - self._block) / 1000)
                self._block = None
            case self.key:
                self.quality = self._number(value, self.key, self.quality)
                self.place = self._number(place.get("epoch_num", place.get("samples_count")), None, self.place) or 0.0
            case "train_loss" | "loss":
                self.loss = self._number(value, line.key, self.loss)
            case "tracked_stats" if isinstance(value, Mapping):
                self._stats(value)
        for name in ("samples_count", "step_num"):
            self.samples = self._number(place.get(name), None, self.samples)

    def _stats(self, value: Mapping[str, Any]) -> None:
        self.loss = self._number(value.get("train_loss", value.get("loss")), "train_loss", self.loss)
        if speed := self._number(value.get("throughput"), None, None):
            self.speeds.append(speed)

    def _number(self, value: Any, name: str | None, before: float | None) -> float | None:
        """`value` where it is a number, else what was there before; a NaN under `name` stands until a number comes."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return before
        if not math.isfinite(value):
            if name and self.not_a_number is None:
                self.not_a_number = f"{name} is {value}"
            return before
        if name:
            self.not_a_number = None
        return float(value)
