"""The engine: one file from one source, in parallel parts, hashed on the way, taken up again where it was cut.

Beside the part file `.NAME.part` lies `.NAME.segments`: whose file it is and how far each segment of it has come.
Readers fill the segments in any order; hashers follow the gapless beginning through the page cache, each algorithm in a
thread of its own, so that the file is read once and is hashed soon after its last byte has come.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from podium import files
from podium.data.transfer import Again, Changed, Refused, Remote, reader
from podium.data.transfer.line import TRIES, Line, Stopped, patiently

SEGMENT = 64 << 20  # bytes asked for by one request
RECORD_EVERY = 1.0  # seconds; a killed process loses what came since
SLOWEST, SLOW_FOR = 1024, 60.0  # a request that after so many seconds has had fewer bytes a second is as good as dead


@dataclass
class Segment:
    """Bytes `start` to before `stop` (None: the end, wherever it is), of which all before `at` are there."""

    start: int
    stop: int | None
    at: int


@dataclass
class Arriving:
    """A file on its way. Readers `advance` its segments, hashers wait for its gapless beginning to grow."""

    segments: list[Segment]
    moved: threading.Condition = field(default_factory=threading.Condition)
    stopped: bool = False
    first: int = 0  # index of the first segment that is not whole

    def advance(self, segment: Segment, count: int) -> None:
        """Say that `count` more bytes of a segment are in the file; raises Stopped where nobody wants more."""
        with self.moved:
            segment.at += count
            self.moved.notify_all()
            if self.stopped:
                raise Stopped

    def edge(self, beyond: int) -> int:
        """Wait until more than `beyond` bytes are there without a gap, or all are; returns how many."""
        with self.moved:
            while (edge := self._edge()) == beyond and self.first < len(self.segments) and not self.stopped:
                self.moved.wait()
            if self.stopped:
                raise Stopped
            return edge

    def _edge(self) -> int:
        while self.first < len(self.segments) and self.segments[self.first].at == self.segments[self.first].stop:
            self.first += 1
        return self.segments[min(self.first, len(self.segments) - 1)].at if self.segments else 0

    def close(self, segment: Segment) -> None:
        """Say that a segment without a known end has come to it."""
        with self.moved:
            segment.stop = segment.at
            self.moved.notify_all()

    def stop(self) -> None:
        with self.moved:
            self.stopped = True
            self.moved.notify_all()


def bring(
    address: str, part: Path, size: int | None, hashes: dict[str, str], algorithms: tuple[str, ...], way: Line
) -> dict[str, str]:
    """Bring the file at `address` into `part`, which is then whole, synced and has the published size and hashes.

    Returns its hex digest for each of `algorithms`. What an earlier try left is gone on with where it is of the same
    file: told by the address and the tag, or proven at the end by a published hash. Raises Refused, OSError.
    """

    def try_once() -> dict[str, str]:
        source = reader(address)
        remote = source.look(address)
        _fits(remote, size, hashes)
        segments = _resumed(part, address, remote, bool(hashes))
        resumed = any(segment.at > segment.start for segment in segments)
        try:
            digests = _arrive(source, address, remote, part, segments, algorithms, way)
        except Changed as change:
            discard(part)
            raise Again(f"it changes while it is read: {change}") from change
        if problem := _wrong(part, size, hashes, digests):
            discard(part)
            raise Again(problem, after=0) if resumed else Refused(problem)  # what an earlier try left may be wrong
        _forget(part)
        return digests

    return patiently(try_once, way.pause)


def discard(part: Path) -> None:
    """Remove a part file and what is known of it."""
    part.unlink(missing_ok=True)
    _forget(part)


def left_of(part: Path) -> int:
    """Bytes on disk of what an earlier try left."""
    return part.stat().st_blocks * 512 if part.exists() else 0


def _fits(remote: Remote, size: int | None, hashes: dict[str, str]) -> None:
    if None not in (size, remote.bytes) and size != remote.bytes:
        raise Refused(f"{size} bytes expected, {remote.bytes} found")
    if size is None and remote.bytes is None and not hashes:
        raise Refused("nobody says how long it is: neither a published size or hash nor the server's answer")


def _resumed(part: Path, address: str, remote: Remote, proven: bool) -> list[Segment]:
    """The segments of a file, as far as an earlier try has brought them where that is of use."""
    if not remote.ranges or remote.bytes is None:
        discard(part)
        return [Segment(0, remote.bytes, 0)]
    ats: list[int] = []
    step = SEGMENT
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # a torn record is as good as none
        record = files.read_json(_segments_file(part))
        same = record["tag"] is not None and (record["address"], record["tag"]) == (address, remote.tag)
        if record["bytes"] == remote.bytes and (same or proven) and part.exists():
            ats, step = record["at"], record["segment"]
    if not ats:
        discard(part)
    starts = range(0, remote.bytes, step)
    return [
        Segment(start, min(start + step, remote.bytes), at) for start, at in zip(starts, ats or starts, strict=True)
    ]


def _record(part: Path, address: str, remote: Remote, segments: list[Segment], descriptor: int) -> None:
    """Write down how far the segments have come, after that much is safely on the disk."""
    if not remote.ranges or not segments:
        return
    ats = [segment.at for segment in segments]
    os.fdatasync(descriptor)
    step = segments[0].stop - segments[0].start
    facts = {"address": address, "tag": remote.tag, "bytes": remote.bytes, "segment": step, "at": ats}
    fresh = _fresh_file(part)
    fresh.write_text(json.dumps(facts), encoding="utf-8")
    fresh.replace(_segments_file(part))


def _segments_file(part: Path) -> Path:
    return part.with_suffix(".segments")


def _fresh_file(part: Path) -> Path:
    return part.with_suffix(".segments-new")  # always the same name: a kill leaves no litter


def _forget(part: Path) -> None:
    _segments_file(part).unlink(missing_ok=True)
    _fresh_file(part).unlink(missing_ok=True)


def _arrive(
    source: ModuleType,
    address: str,
    remote: Remote,
    part: Path,
    segments: list[Segment],
    algorithms: tuple[str, ...],
    way: Line,
) -> dict[str, str]:
    """Read all segments, hash them as they come, sync; on an error write down what has come, and raise it."""
    arriving = Arriving(segments)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with contextlib.closing(os.fdopen(descriptor, "rb", buffering=0)), ThreadPoolExecutor(len(algorithms)) as hashers:
        readers = [
            way.connections.submit(_read, source, address, remote, segment, descriptor, arriving, way)
            for segment in segments
            if segment.at != segment.stop
        ]
        digests = {name: hashers.submit(_digest, name, descriptor, arriving) for name in algorithms}
        pending = {*readers, *digests.values()}
        try:
            while pending:
                done, pending = concurrent.futures.wait(pending, RECORD_EVERY, concurrent.futures.FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if way.ended.is_set():
                    raise Stopped
                if pending:
                    _record(part, address, remote, segments, descriptor)
        except BaseException:
            arriving.stop()
            for future in pending:
                future.cancel()
            concurrent.futures.wait(pending)
            with contextlib.suppress(OSError):  # the disk may be full, which is what `raise` then says
                _record(part, address, remote, segments, descriptor)
            raise
        os.fsync(descriptor)
    return {name: future.result() for name, future in digests.items()}


def _read(
    source: ModuleType, address: str, remote: Remote, segment: Segment, descriptor: int, arriving: Arriving, way: Line
) -> None:
    """Fill one segment; where it is cut, go on from there, as long as each try brings something."""
    failures = 0
    while segment.at != segment.stop:
        before, began = segment.at, time.monotonic()
        try:
            for piece in source.read(address, remote, segment.at, segment.stop):
                way.wait_turn(len(piece))
                _write(descriptor, piece, segment.at)
                arriving.advance(segment, len(piece))
                way.arrived(len(piece))
                seconds = time.monotonic() - began
                if seconds > SLOW_FOR and segment.at - before < SLOWEST * seconds:
                    raise Refused(f"slower than {SLOWEST} bytes a second")
            if segment.stop is None:
                arriving.close(segment)
            elif segment.at < segment.stop:
                raise Again(f"cut at byte {segment.at} of {remote.bytes}")
        except Again as again:
            if not remote.ranges:
                raise  # it cannot go on from here: the whole file again
            failures = failures + 1 if segment.at == before else 1
            if failures == TRIES:
                raise Refused(f"{again} ({failures} tries)") from again
            way.pause(failures, again.after)
            arriving.advance(segment, 0)


def _write(descriptor: int, piece: bytes, at: int) -> None:
    written = os.pwrite(descriptor, piece, at)
    while written < len(piece):  # a file system may take less at a time
        written += os.pwrite(descriptor, piece[written:], at + written)


def _digest(algorithm: str, descriptor: int, arriving: Arriving) -> str:
    """Hex digest of a file on its way; follows the gapless beginning."""
    value = hashlib.new(algorithm, usedforsecurity=False)
    buffer, at = memoryview(bytearray(files.CHUNK)), 0
    while (edge := arriving.edge(at)) > at:
        while at < edge:
            count = os.preadv(descriptor, [buffer[: min(len(buffer), edge - at)]], at)
            if not count:
                raise Changed("the part file is shorter than its record says")
            value.update(buffer[:count])
            at += count
    return value.hexdigest()


def _wrong(part: Path, size: int | None, hashes: dict[str, str], digests: dict[str, str]) -> str | None:
    """What is wrong with a whole file by what is published of it; where that is no hash, by how its kind begins."""
    found = part.stat().st_size
    if size not in (None, found):
        return f"{size} bytes expected, {found} found"
    for name, expected in hashes.items():
        if digests[name] != expected:
            return f"{name} {expected} expected, {digests[name]} found"
    beginning = _BEGINNINGS.get(Path(part.name.removesuffix(".part")).suffix)
    if not hashes and beginning:
        with part.open("rb") as file:
            head = file.read(60)
        if not head.startswith(beginning):
            return f"a {Path(part.stem).suffix} file expected, this begins with {head!r}"
    return None


_BEGINNINGS = {  # not of .npy: IGBH's largest have no header
    ".gz": b"\x1f\x8b",
    ".zip": b"PK",
    ".bz2": b"BZh",
    ".npz": b"PK",
    ".parquet": b"PAR1",
    ".jpg": b"\xff\xd8",
}
