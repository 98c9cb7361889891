"""The arrays of IGBH as they are published: edges in pairs, and features of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podium.errors import BadInput

FORMS = {"arrays": "full/processed/ with edge_index.npy of six kinds and node_feat.npy of six, as they are fetched"}
BASE = "full/processed"
KINDS = ("paper", "author", "institute", "fos", "journal", "conference")
COLUMNS = 1024  # of each node's features
LABELS = ("node_label_19.npy", "node_label_2K.npy")
CITES = "paper__cites__paper"
NEXT = "podium fetch igbh"
_MAGIC = b"\x93NUMPY"
_EDGES = (
    ("paper", "written_by", "author"),
    ("author", "affiliated_to", "institute"),
    ("paper", "topic", "fos"),
    ("paper", "published", "journal"),
    ("paper", "venue", "conference"),
)


@dataclass(frozen=True)
class Edges:
    """One kind of edges of the compressed graph: in `path` pairs of nodes, of which column `source` points to the
    other one. Citations count in both directions, and every paper cites itself.
    """

    name: str
    path: Path
    kinds: tuple[str, str]
    source: int = 0
    both: bool = False

    def read(self) -> np.ndarray:
        """The pairs, (edges, 2) int64, mapped; raises BadInput for a file that is no such array."""
        return _mapped(self.path, 2, "<i8")


@dataclass(frozen=True)
class Source:
    """Everything that is read: edges, and the features of each kind of nodes, mapped."""

    edges: list[Edges]
    features: Mapping[str, Path]
    labels: list[Path]

    def nodes(self) -> dict[str, int]:
        """How many nodes there are of each kind."""
        return {kind: len(features(path)) for kind, path in self.features.items()}


def find(folder: Path) -> Source:
    """The arrays in `folder`; raises BadInput that names all that are missing, and each of another form."""
    base = folder / BASE
    edges = [Edges(CITES, base / CITES / "edge_index.npy", ("paper", "paper"), both=True)]
    for first, verb, second in _EDGES:
        path = base / f"{first}__{verb}__{second}" / "edge_index.npy"
        edges.append(Edges(path.parent.name, path, (first, second)))
        edges.append(Edges(f"{second}__rev_{verb}__{first}", path, (second, first), source=1))
    found = Source(
        edges,
        {kind: base / kind / "node_feat.npy" for kind in KINDS},
        [base / "paper" / name for name in LABELS],
    )
    wanted = {one.path: None for one in edges} | dict.fromkeys([*found.features.values(), *found.labels])
    if missing := [str(path.relative_to(folder)) for path in wanted if not path.is_file()]:
        raise BadInput(f"{folder} is not complete", FORMS["arrays"], f"no {', '.join(missing)}", NEXT)
    for one in edges:
        one.read()
    found.nodes()
    return found


def features(path: Path) -> np.ndarray:
    """Features of the nodes of one kind, (nodes, 1024) float32, mapped.

    In the full set those of papers and authors have no header. Raises BadInput for a file that is no such array.
    """
    size = path.stat().st_size
    if _head(path) != _MAGIC and size and size % (4 * COLUMNS) == 0:
        return np.memmap(path, "<f4", "r", shape=(size // (4 * COLUMNS), COLUMNS))
    return _mapped(path, COLUMNS, "<f4")


def _mapped(path: Path, columns: int, dtype: str) -> np.ndarray:
    expected = f"rows of {columns} {np.dtype(dtype)}"
    head = _head(path)
    if head != _MAGIC:
        raise BadInput(f"{path} is no array", expected, f"{path.stat().st_size} bytes that begin with {head!r}", NEXT)
    try:
        found = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise BadInput(f"{path} is damaged", expected, str(error), NEXT) from error
    if found.ndim != 2 or found.shape[1] != columns or found.dtype != np.dtype(dtype) or not len(found):
        raise BadInput(f"{path} holds another array", expected, f"{found.shape} of {found.dtype}", NEXT)
    return found


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_MAGIC))
