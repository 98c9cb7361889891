"""Drawn nodes once more, plainly: their edges from the pairs, their features from the source."""

from __future__ import annotations

import math
import struct

import numpy as np

from podium.data.again import Again, Sample
from podium.data.formats import pt
from podium.data.igbh import compress, source

_NODES = 1000  # at most so many of each kind


def rederive(sample: Sample) -> Again:
    """Compare the sources of drawn targets of each kind of edges, and drawn rows of features, with those published."""
    found, base, items, problems = source.find(sample.source), sample.folder / source.BASE, 0, []
    for one in found.edges:
        folder = compress.folder_of(base, one.name)
        pointers, indices = pt.mapped(folder / "indptr.pt"), pt.mapped(folder / "indices.pt")
        drawn = sample.drawn(range(len(pointers) - 1))
        drawn = drawn[:: -(-len(drawn) // _NODES)]
        wanted = _sources(one, drawn, len(pointers) - 1)
        for node in drawn:
            if indices[pointers[node] : pointers[node + 1]].tolist() != wanted[node]:
                problems.append(f"CSC/{one.name}: expected the {len(wanted[node])} sources of {node}, found others")
        items += len(drawn)
    for kind, path in found.features.items():
        rows, halves = source.features(path), pt.mapped(base / kind / "node_feat_fp16.pt")
        drawn = sample.drawn(range(len(rows)))
        drawn = drawn[:: -(-len(drawn) // _NODES)]
        for node in drawn:
            if halves[node].tobytes() != b"".join(map(_half, rows[node].tolist())):
                problems.append(f"{kind}/node_feat_fp16.pt: expected the features of node {node}, found others")
        items += len(drawn)
    return Again(items, problems)


def _sources(edges: source.Edges, targets: list[int], count: int) -> dict[int, list[int]]:
    """The sources of each of these targets, in order; of citations also those that a target cites, and twice itself."""
    found: dict[int, list[int]] = {target: [target, target] if edges.both else [] for target in targets}
    pairs, chosen = edges.read(), np.zeros(count, bool)
    chosen[targets] = True
    for start in range(0, len(pairs), compress.BLOCK):
        block = np.array(pairs[start : start + compress.BLOCK])
        for at in (0, 1) if edges.both else (edges.source,):
            inside = block[block[:, 1 - at] < count]
            for pair in inside[chosen[inside[:, 1 - at]]].tolist():
                if not edges.both or pair[0] != pair[1]:
                    found[pair[1 - at]].append(pair[at])
    return {target: sorted(sources) for target, sources in found.items()}


def _half(value: float) -> bytes:
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", math.copysign(math.inf, value))
