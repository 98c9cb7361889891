"""IGBH for rgat: the compressed graph, features as float16 and the drawn papers, in files that the reference reads."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from podium import files
from podium.data.formats import pt
from podium.data.igbh import compress, seeds, source
from podium.data.igbh.again import rederive
from podium.data.igbh.check import invariants
from podium.data.igbh.source import FORMS
from podium.data.job import Job
from podium.data.tasks import runner
from podium.errors import BadInput

__all__ = ["FORMS", "LAYOUTS", "PARAMS", "invariants", "prepare", "rederive"]

LAYOUTS = {"csc": "full/processed/ with CSC/*/{indptr,indices}.pt, */node_feat_fp16.pt, {train,val}_idx.pt and labels"}
PARAMS = {"labelled": "the first N papers, which have a label, to draw seeds from (default 157675969, of 2,983 topics)"}
_LABELLED = 157_675_969
_ROWS = 1 << 14  # of features at once: 64 MB
_EDGE = 24  # bytes on disk for an edge while it is sorted: its key, its index, and room for indptr


def prepare(job: Job) -> dict[str, Any]:
    """Write graph, features, seeds and labels below `job.to`; the bytes do not depend on `job.workers`.

    Files that are there from an earlier try are not made again. Returns edges and nodes of each kind and the numbers of
    seeds. Raises BadInput for arrays that are missing, of another form, or with edges of nodes that do not exist.
    """
    found, base, work = source.find(job.source), job.to / source.BASE, job.to / "work"
    nodes = found.nodes()
    labelled = job.params.get("labelled", _LABELLED)
    if not isinstance(labelled, int) or isinstance(labelled, bool) or not 0 < labelled <= nodes["paper"]:
        raise BadInput("parameter labelled", f"1 to {nodes['paper']} papers", repr(labelled), "podium prepare --help")
    if labelled >= seeds.MOST:
        raise BadInput("parameter labelled", f"less than {seeds.MOST}", repr(labelled), "podium prepare --help")
    edges = sum(len(one.read()) * (2 if one.both else 1) for one in found.edges)
    needed = edges * _EDGE + sum(nodes.values()) * 2 * source.COLUMNS - _there(job.to)
    files.need_space(job.to, needed, f"the graph in {job.to}")
    with runner(job.workers) as run:
        sizes = run(
            [partial(compress.write, one, tuple(nodes[kind] for kind in one.kinds), base, work) for one in found.edges],
            "edges",
        )
        run([partial(_halve, path, half_path(base, kind)) for kind, path in found.features.items()], "features")
    train, evaluated = seeds.split(labelled)
    for name, drawn in (("train_idx.pt", train), ("val_idx.pt", evaluated)):
        with pt.writing(base / name, "<i8", drawn.shape) as write:
            write(drawn)
    for path in found.labels:
        with path.open("rb") as labels, files.writing(base / "paper" / path.name) as file:
            shutil.copyfileobj(labels, file, files.CHUNK)
    shutil.rmtree(work, ignore_errors=True)
    return {
        **{f"{kind}_nodes": count for kind, count in nodes.items()},
        "edges": {one.name: size for one, size in zip(found.edges, sizes, strict=True)},
        "labelled": labelled,
        "train_samples": len(train),
        "eval_samples": len(evaluated),
    }


def half_path(base: Path, kind: str) -> Path:
    """Where the features of a kind of nodes are as float16."""
    return base / kind / "node_feat_fp16.pt"


def _halve(path: Path, to: Path) -> None:
    """Write features as float16, to the nearest; what float16 cannot hold is infinite, as in PyTorch."""
    if to.exists():
        return
    found = source.features(path)
    with pt.writing(to, "<f2", found.shape) as write, np.errstate(over="ignore"):
        for start in range(0, len(found), _ROWS):
            write(found[start : start + _ROWS].astype("<f2"))


def _there(to: Path) -> int:
    """Bytes that an earlier try has written."""
    return sum((to / path).stat().st_size for path in files.walk(to))
