"""What must hold of the compressed graph, its features and seeds, whatever their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium.data.formats import pt
from podium.data.igbh import compress, source


def invariants(folder: Path, layout: str, counts: Mapping[str, Any]) -> list[str]:
    """Everything that contradicts the format or the counts, one sentence each: of each kind of edges that `indptr`
    rises from 0 to their number and that the sources of each target rise and exist; shapes of features; seeds that are
    labelled papers, each once; labels for every paper.
    """
    base, problems = folder / source.BASE, []
    for name, count in counts["edges"].items():
        first, _, second = name.split("__")
        nodes = (counts[f"{first}_nodes"], counts[f"{second}_nodes"])
        problems += _explained(base, compress.folder_of(base, name), _graph, count, nodes)
    for kind in source.KINDS:
        shape = (counts[f"{kind}_nodes"], source.COLUMNS)
        problems += _explained(base, base / kind / "node_feat_fp16.pt", _features, shape)
    problems += _explained(base, base, _seeds, counts)
    for name in source.LABELS:
        path, least = base / "paper" / name, 4 * counts["paper_nodes"]
        size = path.stat().st_size if path.is_file() else -1
        if size < least:
            problems.append(f"paper/{name}: expected at least {least} bytes, a label for each paper, found {size}")
    return problems


def _explained(base: Path, path: Path, check: Callable[..., Iterator[str]], *facts: Any) -> list[str]:
    name = path.relative_to(base)
    try:
        return [f"{name}: {problem}" for problem in check(path, *facts)]
    except (OSError, ValueError) as error:
        return [f"{name}: expected tensors, found {error}"]


def _graph(path: Path, count: int, nodes: tuple[int, int]) -> Iterator[str]:
    pointers, indices = pt.mapped(path / "indptr.pt"), pt.mapped(path / "indices.pt")
    if len(indices) != count:
        yield f"expected {count} edges, found {len(indices)}"
        return
    if not 0 < len(pointers) <= nodes[1] + 1 or pointers[0] != 0 or pointers[-1] != count:
        yield f"expected indptr from 0 to {count} for at most {nodes[1]} nodes, found {len(pointers)} values"
        return
    falling, outside, unsorted = 0, 0, 0
    for start in range(0, len(pointers), compress.BLOCK):
        falling += int((np.diff(pointers[start : start + compress.BLOCK + 1]) < 0).sum())
    if falling:
        yield f"expected indptr that rises, found {falling} places where it falls"
        return
    for start in range(0, count, compress.BLOCK):
        block = indices[start : start + compress.BLOCK + 1]
        own = block[: compress.BLOCK]
        outside += int(((own < 0) | (own >= nodes[0])).sum())
        falls = start + 1 + np.flatnonzero(np.diff(block) < 0)  # where only another target may begin
        unsorted += int((pointers[np.searchsorted(pointers, falls)] != falls).sum())
    if outside:
        yield f"expected sources below {nodes[0]}, found {outside} others"
    if unsorted:
        yield f"expected sources that rise for each target, found {unsorted} places where they fall"


def _features(path: Path, shape: tuple[int, int]) -> Iterator[str]:
    found = pt.mapped(path)
    if (found.shape, found.dtype.str) != (shape, "<f2"):
        yield f"expected {shape} of float16, found {found.shape} of {found.dtype}"


def _seeds(base: Path, counts: Mapping[str, Any]) -> Iterator[str]:
    drawn = np.zeros(counts["labelled"], bool)
    for name, wanted in (("train_idx.pt", counts["train_samples"]), ("val_idx.pt", counts["eval_samples"])):
        found = pt.mapped(base / name)
        if found.shape != (wanted,):
            yield f"{name}: expected {wanted} papers, found {found.shape}"
        elif wanted and not 0 <= found.min() <= found.max() < len(drawn):
            yield f"{name}: expected papers below {len(drawn)}, found {found.min()} to {found.max()}"
        else:
            before = int(drawn.sum())
            drawn[found] = True
            if twice := wanted - (int(drawn.sum()) - before):
                yield f"{name}: expected each paper once, found {twice} again"
