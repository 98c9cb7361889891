"""JPEG files as they are found in ImageNet: what their headers say, whether they are whole, and the few to re-encode.

Nothing is decoded unless it must be: the header gives size and colour, and a file that ends with its end marker is
taken as whole. Source of the format: ITU-T T.81; the marker `Adobe`: Adobe technical note 5116.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import simplejpeg

_START, _END = b"\xff\xd8", b"\xff\xd9"
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
# Start of frame: 0xC0 to 0xCF without DHT (C4), JPG (C8) and DAC (CC).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ADOBE = b"\xff\xee\x00\x0eAdobe"
_BARE = frozenset(range(0xD0, 0xD9)) | {0x01}  # markers without a length
_DENSITY = b"\x01\x01\x2c\x01\x2c"  # of a JFIF header: dots per inch, 300 by 300


class Header(NamedTuple):
    """What an image file says of itself; `kind` is jpeg, cmyk (a JPEG of four components) or png."""

    kind: str
    height: int
    width: int


class Undecodable(ValueError):
    """Not an image that can be decoded; the text says why."""


def header(data: bytes) -> Header:
    """Kind and size of a JPEG, or of a PNG under a JPEG's name.

    Raises Undecodable for anything else. A file that does not end with its end marker is decoded: it may have something
    behind it, but one without the marker is cut (TensorFlow refuses it too).
    """
    if data.startswith(_PNG):
        if not data.endswith(_PNG_END):
            decode(data)
        return Header("png", int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"))
    if not data.startswith(_START):
        raise Undecodable(f"no JPEG: starts with {data[:8].hex() or 'nothing'}")
    height, width, components = _frame(data)
    found = Header("cmyk" if components == 4 else "jpeg", height, width)
    if not data.endswith(_END):
        decode(data)
    return found


def _frame(data: bytes) -> tuple[int, int, int]:
    """Height, width and number of components from the start-of-frame segment; bytes between segments are skipped."""
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 4 <= len(data):
        marker = data[position + 1]
        if marker in _FRAMES and position + 10 <= len(data):
            size = data[position + 5 : position + 10]
            return size[0] << 8 | size[1], size[2] << 8 | size[3], size[4]
        if marker == 0xDA:
            break
        if marker in (0x00, 0xFF):
            position += 1
        elif marker in _BARE:
            position += 2
        else:
            position += 2 + (data[position + 2] << 8 | data[position + 3])
    raise Undecodable("no JPEG: no start-of-frame segment")


def decode(data: bytes) -> np.ndarray:
    """Pixels as uint8 (height, width, 3), as TensorFlow's decoders give them; raises Undecodable with the reason."""
    if data.startswith(_PNG):
        return _decode_png(data)
    cmyk = _frame(data)[2] == 4
    try:
        pixels = simplejpeg.decode_jpeg(data, "CMYK" if cmyk else "RGB", fastdct=True, fastupsample=False)
    except ValueError as error:
        raise Undecodable(str(error)) from error
    return _cmyk_to_rgb(pixels, inverted=_ADOBE in data) if cmyk else pixels


def _cmyk_to_rgb(pixels: np.ndarray, inverted: bool) -> np.ndarray:
    """TensorFlow's rule (`core/lib/jpeg/jpeg_mem.cc`): ink times black, where Adobe's files hold 255 - ink."""
    light = pixels.astype(np.uint16) if inverted else 255 - pixels.astype(np.uint16)
    return (light[..., :3] * light[..., 3:] // 255).astype(np.uint8)


def _decode_png(data: bytes) -> np.ndarray:
    import png  # one image of 1,281,167 needs it

    try:
        width, height, rows, _ = png.Reader(bytes=data).asRGBA8()
        pixels = np.vstack([np.frombuffer(row, np.uint8) for row in rows])
    except (png.Error, zlib.error) as error:
        raise Undecodable(str(error)) from error
    return np.ascontiguousarray(pixels.reshape(height, width, 4)[..., :3])


def to_rgb(data: bytes, header: Header) -> bytes:
    """The file itself, or a PNG or CMYK file as an RGB JPEG; raises Undecodable with the reason."""
    return data if header.kind == "jpeg" else encode(decode(data))


def encode(pixels: np.ndarray) -> bytes:
    """A JPEG of quality 100 with 4:2:0 chroma and 300 dots per inch, as TensorFlow's `encode_jpeg(quality=100)`."""
    data = simplejpeg.encode_jpeg(pixels, quality=100, colorsubsampling="420", fastdct=False)
    return data[:13] + _DENSITY + data[18:]
