"""Edges sorted by the node that they point to: CSC, in bounded memory.

Source: mlcommons/training@aa344c7f, retired_benchmarks/rgat/compress_graph.py, and what it calls (graphlearn-torch
0.2.2, utils/topo.py): edges are sorted by target, then by source, none is merged with another, and `indptr` ends with
the last target that there is. There all edges of a kind are in memory several times; here they are distributed to files
of about equally many, each of which is sorted by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from podium.data.formats import pt
from podium.data.igbh.source import NEXT, Edges
from podium.errors import BadInput

BLOCK = 1 << 22  # edges at once
SORTED = 1 << 26  # edges that are sorted in memory
_SAMPLED = 1 << 12  # keys that are drawn for each file


def folder_of(base: Path, name: str) -> Path:
    """Where the two arrays of a kind of edges are."""
    return base / "CSC" / name


def write(edges: Edges, nodes: tuple[int, int], base: Path, work: Path) -> int:
    """Write indptr.pt and indices.pt of one kind of edges between so many nodes; returns the number of edges.

    Only that where they are there. Raises BadInput for an edge of a node that does not exist.
    """
    to = folder_of(base, edges.name)
    if (to / "indptr.pt").exists() and (to / "indices.pt").exists():
        return len(pt.mapped(to / "indices.pt"))
    total, last = 0, -1
    for source, target in pairs(edges, nodes):
        total, last = total + len(source), max(last, int(target.max(initial=-1)))
    work = work / edges.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    buckets = _distributed(edges, nodes, total, work)
    with (
        pt.writing(to / "indptr.pt", "<i8", (last + 2,)) as pointers,
        pt.writing(to / "indices.pt", "<i8", (total,)) as indices,
    ):
        done, target = 0, 0  # edges, and targets whose beginning is known
        for path in buckets:
            keys = np.fromfile(path, "<i8")
            keys.sort()
            path.unlink()
            end = int(keys[-1]) // nodes[0] + 1 if len(keys) else target
            for start in range(target, end, BLOCK):
                begins = np.arange(start, min(start + BLOCK, end)) * nodes[0]
                pointers(done + np.searchsorted(keys, begins))
            target, done = end, done + len(keys)
            for start in range(0, len(keys), BLOCK):
                indices(keys[start : start + BLOCK] % nodes[0])
        pointers(np.array([total]))
    shutil.rmtree(work)
    return total


def pairs(edges: Edges, nodes: tuple[int, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sources and targets of all edges, in blocks."""
    found, top = edges.read(), -1
    for start in range(0, len(found), BLOCK):
        block = np.array(found[start : start + BLOCK])
        source, target = block[:, edges.source], block[:, 1 - edges.source]
        if source.min() < 0 or source.max() >= nodes[0] or target.min() < 0 or target.max() >= nodes[1]:
            expected = f"nodes below {nodes[edges.source]} and {nodes[1 - edges.source]}"
            raise BadInput(f"{edges.path} has edges of no node", expected, f"{block.max(0)} and {block.min(0)}", NEXT)
        if edges.both:
            others = source != target
            source, target = source[others], target[others]
            top = max(top, int(max(source.max(initial=-1), target.max(initial=-1))))
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        yield source, target
    for start in range(0, top + 1, BLOCK):  # each of them twice, as everything is there in both directions
        loops = np.arange(start, min(start + BLOCK, top + 1)).repeat(2)
        yield loops, loops


def _distributed(edges: Edges, nodes: tuple[int, int], total: int, work: Path) -> list[Path]:
    """Write a key for each edge, target x sources + source, into files: those of one are below those of the next."""
    count = max(1, -(-total // SORTED))
    step = max(1, total // (count * _SAMPLED))
    drawn = np.sort(np.concatenate([_keys(*pair, nodes)[::step] for pair in pairs(edges, nodes)]))
    borders = drawn[[len(drawn) * number // count for number in range(1, count)]]
    paths = [work / str(number) for number in range(count)]
    with ExitStack() as stack:
        opened = [stack.enter_context(path.open("wb")) for path in paths]
        for pair in pairs(edges, nodes):
            keys = _keys(*pair, nodes)
            places = np.searchsorted(borders, keys, "right").astype(np.uint16)  # sorted in linear time
            keys = keys[np.argsort(places, kind="stable")]
            ends = np.cumsum(np.bincount(places, minlength=count))
            for file, part in zip(opened, np.split(keys, ends[:-1]), strict=True):
                file.write(part.tobytes())
    return paths


def _keys(source: np.ndarray, target: np.ndarray, nodes: tuple[int, int]) -> np.ndarray:
    return target * nodes[0] + source
