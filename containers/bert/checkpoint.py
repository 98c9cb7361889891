"""Starts from the reference's checkpoint, read from TensorFlow's files without TensorFlow.

`PREFIX.index` is a table of LevelDB's kind: sorted names of tensors in blocks, each with a BundleEntryProto that says
its type, its shape, and where its values lie in `PREFIX.data-0000x-of-0000y`. Sources:
tensorflow/core/util/tensor_bundle, tensorflow/core/protobuf/tensor_bundle.proto, LevelDB's doc/table_format.md.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common.contract import stop
from model import Bert

MAGIC = 0xDB4775248B80FB57  # the last 8 bytes of a table
FOOTER = 48  # bytes
FLOAT32 = 1  # of tensorflow.DataType

# What the reference calls the modules; a layer's number comes before the part in brackets.
MODULES = {
    "embeddings.word": "bert/embeddings/word_embeddings",
    "embeddings.position": "bert/embeddings/position_embeddings",
    "embeddings.segment": "bert/embeddings/token_type_embeddings",
    "embeddings.layer_norm": "bert/embeddings/LayerNorm",
    "attention.query": "attention/self/query",
    "attention.key": "attention/self/key",
    "attention.value": "attention/self/value",
    "attention.output": "attention/output/dense",
    "attention_layer_norm": "attention/output/LayerNorm",
    "intermediate": "intermediate/dense",
    "output": "output/dense",
    "output_layer_norm": "output/LayerNorm",
    "pooler": "bert/pooler/dense",
    "masked_language_head.transform": "cls/predictions/transform/dense",
    "masked_language_head.layer_norm": "cls/predictions/transform/LayerNorm",
}
PLAIN = {  # parameters without a module of their own
    "masked_language_head.bias": "cls/predictions/output_bias",
    "next_sentence_head.weight": "cls/seq_relationship/output_weights",
    "next_sentence_head.bias": "cls/seq_relationship/output_bias",
}


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies: a type of tensorflow.DataType, its shape, and bytes of one of the data files."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


@torch.no_grad()
def start_from(prefix: Path, model: Bert) -> None:
    """Give the model the weights of the checkpoint; ends the process with status 2 where it has others."""
    try:
        shards, entries = read_index(Path(f"{prefix}.index").read_bytes())
    except (OSError, ValueError, IndexError, TypeError, struct.error) as error:
        stop(f"CHECKPOINT={prefix}: expected a checkpoint of TensorFlow ({prefix.name}.index), found: {error}")
    for parameter_name, parameter in model.named_parameters():
        name, turned = tensor_name(parameter_name)
        entry = entries.get(name)
        shape = tuple(parameter.T.shape if turned else parameter.shape)
        if entry is None or (entry.kind, entry.shape) != (FLOAT32, shape):
            stop(f"CHECKPOINT={prefix}: expected {name} {shape} in float32, found {entry}; is it the reference's?")
        path = Path(f"{prefix}.data-{entry.shard:05d}-of-{shards:05d}")
        if entry.size != 4 * parameter.numel() or not path.is_file() or path.stat().st_size < entry.offset + entry.size:
            stop(f"{path}: expected {entry.offset + entry.size} bytes or more; it is missing or cut short")
        values = torch.from_numpy(np.fromfile(path, "<f4", parameter.numel(), offset=entry.offset)).view(shape)
        if not values.isfinite().all():
            stop(f"{path}: expected numbers in {name}, found some that are not")
        parameter.copy_(values.T if turned else values)


def tensor_name(parameter: str) -> tuple[str, bool]:
    """What the reference calls a parameter, and whether it keeps it turned: kernels are (inputs, outputs) there."""
    if parameter in PLAIN:
        return PLAIN[parameter], False
    module, _, kind = parameter.rpartition(".")
    layer = re.match(r"layers\.(\d+)\.", module)
    name = f"bert/encoder/layer_{layer[1]}/{MODULES[module[layer.end() :]]}" if layer else MODULES[module]
    if "embeddings." in module and "layer_norm" not in module:
        return name, False
    if "layer_norm" in module:
        return f"{name}/{'gamma' if kind == 'weight' else 'beta'}", False
    return f"{name}/{'kernel' if kind == 'weight' else 'bias'}", kind == "weight"


def read_index(raw: bytes) -> tuple[int, dict[str, Entry]]:
    """The number of data files, and the entry of each tensor; ValueError where `raw` is not such an index."""
    if len(raw) < FOOTER or int.from_bytes(raw[-8:], "little") != MAGIC:
        raise ValueError("not a table of LevelDB's kind")
    _, at = _handle(raw, len(raw) - FOOTER)  # of what TensorFlow leaves empty
    blocks, _ = _handle(raw, at)
    shards, entries = 0, {}
    for _, handle in _block(raw, *blocks):
        for key, message in _block(raw, *_handle(handle, 0)[0]):
            if key:
                entries[key.decode()] = _entry(message)
            else:
                shards = dict(_fields(message)).get(1, 0)
    return shards, entries


def _handle(raw: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Offset and size of a block, and where the next one's handle is."""
    offset, at = _varint(raw, at)
    size, at = _varint(raw, at)
    return (offset, size), at


def _block(raw: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values. A key leaves out what it shares with the one before it; the end lists where some keys begin."""
    if raw[offset + size] != 0:
        raise ValueError("a compressed block, which TensorFlow does not write")
    end = offset + size - 4
    end -= 4 * struct.unpack_from("<I", raw, end)[0]
    key, at = b"", offset
    while at < end:
        shared, at = _varint(raw, at)
        more, at = _varint(raw, at)
        length, at = _varint(raw, at)
        key = key[:shared] + raw[at : at + more]
        yield key, raw[at + more : at + more + length]
        at += more + length


def _entry(message: bytes) -> Entry:
    fields = dict(_fields(message))
    dimensions = [dict(_fields(size)) for number, size in _fields(fields.get(2, b"")) if number == 2]
    shape = tuple(dimension.get(1, 0) for dimension in dimensions)
    return Entry(fields.get(1, 0), shape, fields.get(3, 0), fields.get(4, 0), fields.get(5, 0))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
        elif tag & 7 == 2:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        elif tag & 7 in (1, 5):
            value, at = message[at : at + (8 if tag & 7 == 1 else 4)], at + (8 if tag & 7 == 1 else 4)
        else:
            raise ValueError(f"a field of type {tag & 7}")
        yield tag >> 3, value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number in 7 bits a byte, lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = raw[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
