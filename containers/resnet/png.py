"""PNG to pixels, for the one PNG among ImageNet's JPEGs; the format is RFC 2083."""

from __future__ import annotations

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, RGB, palette, grey and alpha, RGB and alpha


def decode(data: bytes) -> np.ndarray:
    """An 8-bit PNG without interlacing to (height, width, 3) uint8 RGB; transparency is left out. Else ValueError."""
    chunks = _chunks(data)
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlace or colour not in CHANNELS:
        raise ValueError(f"PNG of depth {depth}, colour type {colour}, interlace {interlace}: expected 8 bit, plain")
    channels = CHANNELS[colour]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height + 1, width + 1, channels), np.uint8)  # a black row above, a black column before
    for row, line in enumerate(lines, start=1):
        _unfilter(line[0], line[1:].reshape(width, channels), pixels[row - 1], pixels[row])
    pixels = pixels[1:, 1:]
    if colour == 3:
        return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[pixels[:, :, 0]]
    return pixels[:, :, :3] if channels >= 3 else np.repeat(pixels[:, :, :1], 3, axis=2)


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """Content by chunk type; chunks of one type are joined, as IDAT must be."""
    chunks, at = {}, len(SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += 12 + length
    if missing := {b"IHDR", b"IDAT"} - chunks.keys():
        raise ValueError(f"PNG without {sorted(missing)}")
    return chunks


def _unfilter(kind: int, line: np.ndarray, above: np.ndarray, out: np.ndarray) -> None:
    """Undo a row's filter (RFC 2083, section 6): it left the pixels minus a prediction from their neighbours."""
    if kind == 0:
        out[1:] = line
    elif kind == 1:
        out[1:] = np.cumsum(line, axis=0, dtype=np.uint8)
    elif kind == 2:
        out[1:] = line + above[1:]
    else:
        predict = _average if kind == 3 else _paeth
        for x in range(len(line)):
            out[x + 1] = line[x] + predict(out[x].astype(int), above[x + 1].astype(int), above[x].astype(int))


def _average(left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    return ((left + up) // 2).astype(np.uint8)


def _paeth(left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Whichever neighbour is nearest to left + up - corner."""
    guess = left + up - corner
    to_left, to_up, to_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    nearest = np.where((to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner))
    return nearest.astype(np.uint8)
