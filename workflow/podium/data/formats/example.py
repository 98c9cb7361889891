"""`tf.train.Example`, the message in a TFRecord: a map from names to lists of bytes, floats or integers.

Written in the order of the names, so that equal features give equal bytes. Source of the format: TensorFlow
`core/example/{example,feature}.proto` and the protocol buffers encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

Values = bytes | int | Sequence[bytes] | Sequence[int] | Sequence[float]

_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # the fields of Feature
_SMALL = [bytes([number]) for number in range(128)]  # most numbers are lengths and tags, and this is the busiest place


def varint(number: int) -> bytes:
    """A number as protocol buffers write it; a negative one takes ten bytes."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(features: Mapping[str, Values]) -> list[bytes]:
    """The message as pieces to be joined, so that a large value is not copied. A single value stands for a list."""
    entries = [_entry(name, values) for name, values in sorted(features.items())]
    length = sum(len(piece) for entry in entries for piece in entry)
    return [_tag(1, length), *(piece for entry in entries for piece in entry)]


def decode(message: bytes) -> dict[str, list]:
    """The features of a message as lists; raises ValueError for anything else than an Example."""
    features = {}
    for _, map_ in _fields(message):
        for _, entry in _fields(map_):
            fields = dict(_fields(entry))
            key, feature = fields.get(1, b"").decode(), fields.get(2, b"")
            features[key] = [value for kind, body in _fields(feature) for value in _values(kind, body)]
    return features


def _tag(field: int, length: int) -> bytes:
    return varint(field << 3 | 2) + varint(length)


def _entry(name: str, values: Values) -> list[bytes]:
    """One map entry: key, then Feature around BytesList, FloatList or Int64List."""
    key = name.encode()
    kind, pieces = _list(values)
    length = sum(map(len, pieces))
    feature = _tag(kind, length)
    value = _tag(2, len(feature) + length) + feature
    key = _tag(1, len(key)) + key
    return [_tag(1, len(key) + len(value) + length) + key + value, *pieces]


def _list(values: Values) -> tuple[int, list[bytes]]:
    if isinstance(values, bytes | int):
        values = [values]
    if values and isinstance(values[0], bytes):
        return _BYTES, [piece for value in values for piece in (_tag(1, len(value)), value)]
    if values and isinstance(values[0], float):
        packed, kind = struct.pack(f"<{len(values)}f", *values), _FLOATS
    else:
        packed, kind = b"".join(map(varint, values)), _INTEGERS
    return kind, [_tag(1, len(packed)), packed]


def _values(kind: int, body: bytes) -> Iterator[bytes | float | int]:
    for _, packed in _fields(body):
        if kind == _BYTES:
            yield packed
        elif kind == _FLOATS:
            yield from struct.unpack(f"<{len(packed) // 4}f", packed)
        else:
            position = 0
            while position < len(packed):
                number, position = _varint(packed, position)
                yield number - (1 << 64) if number >> 63 else number


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """(field, bytes) of the length-delimited fields, which are all that an Example has."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        length, position = _varint(message, position)
        if key & 7 != 2 or position + length > len(message):
            raise ValueError(f"no tf.train.Example: field {key >> 3} of wire type {key & 7} at byte {position}")
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        if position == len(message) or shift > 63:
            raise ValueError(f"no tf.train.Example: a number is cut at byte {position}")
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position
