"""What must lie in the raw folder of a set that is read as it is fetched: the `layout` of its catalog entry.

Each rule names files by patterns and says what must hold of them: how many there are (`count`), how each begins
(`begins`, hex), that they are arrays (`npy`: dtype, columns, rows of all together), or that each is the index of a
Megatron token file beside it (`megatron`: sequences, tokens at least). Only names, sizes, headers and indices are read;
hashes are the business of fetching.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium.data import catalog
from podium.data.formats import megatron
from podium.errors import BadInput


def check(dataset: str, folder: Path) -> None:
    """Raise BadInput that names everything in `folder` that is not as the catalog says."""
    found = problems(dataset, folder)
    if found:
        raise BadInput(
            f"{folder} has not the layout of {dataset}",
            f"what `layout` in workflow/catalog/datasets/{dataset}.yaml says",
            f"{len(found)} problems:\n            " + "\n            ".join(found),
            f"compare the source with workflow/catalog/datasets/{dataset}.md",
        )


def problems(dataset: str, folder: Path) -> list[str]:
    """Everything in which `folder` differs from the layout in the catalog, one sentence each; none for other sets."""
    rules = catalog.entry(dataset).get("layout", ()) if dataset in catalog.names() else ()
    return [problem for rule in rules for problem in _broken(folder, rule)]


def _broken(folder: Path, rule: Mapping[str, Any]) -> list[str]:
    paths = sorted({path for pattern in rule["files"] for path in folder.glob(pattern) if path.is_file()})
    found = []
    if len(paths) != rule["count"]:
        found.append(f"{', '.join(rule['files'])}: {rule['count']} files expected, {len(paths)} found")
    begins = bytes.fromhex(rule.get("begins", ""))
    for path in paths:
        head = _head(path, len(begins))
        if head != begins:
            found.append(f"{path.relative_to(folder)}: it begins with {head!r}, not with {begins!r}")
    if "npy" in rule:
        found += _npy(folder, paths, rule["npy"])
    if "megatron" in rule:
        found += [problem for path in paths for problem in _megatron(folder, path, rule["megatron"])]
    return found


def _npy(folder: Path, paths: list[Path], rule: Mapping[str, Any]) -> list[str]:
    found, rows = [], 0
    for path in paths:
        try:
            dtype, shape, start = _npy_header(path)
        except (ValueError, KeyError, SyntaxError, struct.error) as error:
            found.append(f"{path.relative_to(folder)}: no .npy header ({error})")
            continue
        name, columns = path.relative_to(folder), int(np.prod(shape[1:]))
        if (str(dtype), columns) != (rule["dtype"], rule["columns"]):
            found.append(f"{name}: {rule['columns']} columns of {rule['dtype']} expected, {columns} of {dtype} found")
        size = start + int(np.prod(shape)) * dtype.itemsize
        if path.stat().st_size != size:
            found.append(f"{name}: {size} bytes by its header, {path.stat().st_size} found")
        rows += shape[0]
    if rows != rule.get("rows", rows):
        found.append(f"{len(paths)} arrays: {rule['rows']} rows expected, {rows} found")
    return found


def _npy_header(path: Path) -> tuple[np.dtype, tuple[int, ...], int]:
    """dtype, shape, and where the data start (numpy.lib.format, versions 1 to 3)."""
    with path.open("rb") as file:
        magic, major, _ = struct.unpack("<6sBB", file.read(8))
        if magic != b"\x93NUMPY":
            raise ValueError(f"it begins with {magic!r}")
        (length,) = struct.unpack("<H", file.read(2)) if major == 1 else struct.unpack("<I", file.read(4))
        facts = ast.literal_eval(file.read(length).decode())
        return np.dtype(facts["descr"]), tuple(facts["shape"]), file.tell()


def _megatron(folder: Path, path: Path, rule: Mapping[str, Any]) -> list[str]:
    """The index says how many tokens its .bin has; both sizes must fit that."""
    name, data = path.relative_to(folder), path.with_suffix(".bin")
    try:
        index = megatron.read_index(path)
    except ValueError as error:
        return [f"{name}: {error}"]
    tokens, found = int(index.lengths(path).sum(dtype=np.int64)), []
    size = tokens * index.dtype.itemsize
    if not data.is_file() or data.stat().st_size != size:
        there = data.stat().st_size if data.is_file() else "no file"
        found.append(f"{data.relative_to(folder)}: {size} bytes by its index, {there} found")
    if index.sequences != rule.get("sequences", index.sequences):
        found.append(f"{name}: {rule['sequences']} sequences expected, {index.sequences} found")
    if tokens < rule.get("tokens", 0):
        found.append(f"{name}: at least {rule['tokens']} tokens expected, {tokens} found")
    return found


def _head(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)
