"""Instances as TensorFlow examples: the records of the reference's TFRecord files.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/create_pretraining_data.py; the message form
is TensorFlow's example.proto and feature.proto. The order of a map's entries is free there; here it is by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from podium.data.wikipedia.instances import Recipe
from podium.data.wikipedia.ragged import Instances

_LENGTH_DELIMITED = 2
_INT64_LIST, _FLOAT_LIST = 3, 2  # field numbers in Feature


def encode(instances: Instances, recipe: Recipe) -> Iterator[bytes]:
    """One serialised Example for each instance, padded as the fixed-length rows are."""
    length, predictions = recipe.max_seq_length, recipe.max_predictions_per_seq
    counts = instances.masked_lm_positions.lengths
    weights = (np.arange(predictions) < counts[:, None]).astype("<f4")
    columns = {
        "input_ids": (_INT64_LIST, _varints(instances.input_ids.padded(length))),
        "input_mask": (_INT64_LIST, _varints(instances.input_mask().padded(length))),
        "masked_lm_ids": (_INT64_LIST, _varints(instances.masked_lm_ids.padded(predictions))),
        "masked_lm_positions": (_INT64_LIST, _varints(instances.masked_lm_positions.padded(predictions))),
        "masked_lm_weights": (_FLOAT_LIST, [row.tobytes() for row in weights]),
        "next_sentence_labels": (_INT64_LIST, _varints(instances.next_sentence_labels[:, None])),
        "segment_ids": (_INT64_LIST, _varints(instances.segment_ids().padded(length))),
    }
    entries = ([_entry_head(name, kind, len(row)) + row for row in rows] for name, (kind, rows) in columns.items())
    for row in zip(*entries, strict=True):
        features = b"".join(row)
        yield _head(1, len(features)) + features


@cache
def _entry_head(name: str, kind: int, size: int) -> bytes:
    """What stands before the `size` bytes of packed values in the map entry of a feature."""
    head = _head(1, size)  # the values of the list
    head = _head(kind, size + len(head)) + head  # the list of the Feature
    head = _head(1, len(name)) + name.encode() + _head(2, size + len(head)) + head  # key and value of the entry
    return _head(1, size + len(head)) + head


def _head(number: int, size: int) -> bytes:
    """Tag and length of a length-delimited field of a protocol buffer."""
    head = bytearray([number << 3 | _LENGTH_DELIMITED])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def decode(records: Sequence[bytes]) -> dict[str, np.ndarray]:
    """The features of equally wide Examples: (N, width) int64 or float32.

    Raises ValueError or IndexError for bytes that are none, or when the features or widths differ.
    """
    columns: dict[tuple[str, int], list[bytes]] = {}
    for record in records:
        ((_, features),) = _fields(record)
        for _, entry in _fields(features):
            (_, name), (_, feature) = _fields(entry)
            ((kind, values),) = _fields(feature)
            ((_, packed),) = _fields(values)
            columns.setdefault((name.decode(), kind), []).append(packed)
    return {
        name: (np.frombuffer(b"".join(rows), "<f4") if kind == _FLOAT_LIST else _from_varints(b"".join(rows))).reshape(
            len(records), -1
        )
        for (name, kind), rows in columns.items()
    }


def _varints(values: np.ndarray) -> list[bytes]:
    """Each row of numbers below 2**21 as packed varints: seven bits a byte, low ones first, a high bit for more."""
    if values.max(initial=0) < 0x80:
        return [row.tobytes() for row in values.astype(np.uint8)]
    two, three = values >= 0x80, values >= 0x4000
    parts = np.empty((*values.shape, 3), np.uint8)
    parts[..., 0] = values & 0x7F | two * 0x80
    parts[..., 1] = values >> 7 & 0x7F | three * 0x80
    parts[..., 2] = values >> 14
    used = np.stack([np.ones_like(two), two, three], -1)
    content, stops = parts[used].tobytes(), np.cumsum(used.sum((1, 2))).tolist()
    return [content[start:stop] for start, stop in pairwise([0, *stops])]


def _from_varints(content: bytes) -> np.ndarray:
    data = np.frombuffer(content, np.uint8)
    more = data >= 0x80
    starts = np.flatnonzero(~np.concatenate([[False], more[:-1]]))
    values = (data[starts] & 0x7F).astype(np.int64)
    longer, step = np.flatnonzero(more[starts]), 1
    while len(longer):
        bytes_there = data[starts[longer] + step]
        values[longer] |= (bytes_there & 0x7F).astype(np.int64) << 7 * step
        longer, step = longer[bytes_there >= 0x80], step + 1
    return values


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    """The length-delimited fields of a message: number and content."""
    found, place = [], 0
    while place < len(message):
        if message[place] & 7 != _LENGTH_DELIMITED:
            raise ValueError(f"field of kind {message[place] & 7} at byte {place}")
        number, place = message[place] >> 3, place + 1
        length = shift = 0
        while True:
            byte = message[place]
            length, shift, place = length | (byte & 0x7F) << shift, shift + 7, place + 1
            if byte < 0x80:
                break
        found.append((number, message[place : place + length]))
        place += length
    return found
