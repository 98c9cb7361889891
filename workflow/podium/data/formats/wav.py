"""RIFF/WAVE with 16-bit PCM: the 44 bytes that SoX 14.4.2 writes in front of the samples."""

from __future__ import annotations

import struct

HEADER_BYTES = 44
SAMPLE_BYTES = 2
PCM = 1


def header(samples: int, rate: int, channels: int = 1) -> bytes:
    """The header of a file of `samples` samples per channel at `rate` Hz; little-endian PCM follows it directly.

    Chunks "RIFF", "fmt " (16 bytes) and "data": Multimedia Programming Interface 1.0 (IBM, Microsoft, 1991), chapter 3.
    """
    frame = channels * SAMPLE_BYTES
    size = file_bytes(samples, channels)
    riff = struct.pack("<4sI4s", b"RIFF", size - 8, b"WAVE")
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, PCM, channels, rate, rate * frame, frame, 8 * SAMPLE_BYTES)
    return riff + fmt + struct.pack("<4sI", b"data", size - HEADER_BYTES)


def file_bytes(samples: int, channels: int = 1) -> int:
    """Size in bytes of a whole file of `samples` samples per channel."""
    return HEADER_BYTES + samples * channels * SAMPLE_BYTES


def split(data: bytes) -> tuple[bytes, memoryview]:
    """A file as its header and its PCM."""
    return data[:HEADER_BYTES], memoryview(data)[HEADER_BYTES:]
