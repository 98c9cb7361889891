"""gzip by all cores, the same bytes on every run: the stream is cut into blocks of one size, each a gzip member.

RFC 1952 lets a file consist of several members; gzip, tar and Python read it as one. CPython's own zlib is used, and
not one with code for each kind of processor, whose output can differ from node to node.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

BLOCK = 1 << 20  # bytes of input in a member: part of the format of an archive, never a matter of the machine
LEVEL = 1
HEADER = b"\x1f\x8b\x08\x00" + b"\x00" * 4 + b"\x04\xff"  # no name, no time, fastest, operating system unknown


class Writer:
    """A file to write to: what is written comes out of `target` compressed, in order. Close it to end the stream."""

    def __init__(self, target: IO[bytes], threads: int | None = None) -> None:
        self._target = target
        self._threads = threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._threads)
        self._waiting: deque[Future[bytes]] = deque()
        self._block = bytearray()
        self._any = False

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        while view:
            room = BLOCK - len(self._block)
            self._block += view[:room]
            view = view[room:]
            if len(self._block) == BLOCK:
                self._submit()
        return len(data)

    def close(self) -> None:
        """Compress what is left, and wait for all; an empty stream is an empty member."""
        try:
            if self._block or not self._any:
                self._submit()
            while self._waiting:
                self._target.write(self._waiting.popleft().result())
        finally:
            self._pool.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """End the threads without ending the stream: what was written is of no use."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        self._any = True
        self._waiting.append(self._pool.submit(member, bytes(self._block)))
        self._block = bytearray()
        while len(self._waiting) > 2 * self._threads:  # no more in memory than the threads need
            self._target.write(self._waiting.popleft().result())


def member(data: bytes) -> bytes:
    """`data` as one gzip member (RFC 1952): header, deflate, CRC32 and size."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    body = deflate.compress(data) + deflate.flush()
    return HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
