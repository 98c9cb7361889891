"""Simulated histories of nights with known content: noise of several kinds, shifts, drifts, a slow node."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.nightly.history import Record
from podium.nightly.index import Index, Run


@dataclass(frozen=True)
class Noise:
    """How runs scatter: `run` is the standard deviation of a run around its night, as a ratio (0.01 is 1 %).

    `night` is that of what all runs of a night share, `phi` how much of it stays for the next one; `tails` the degrees
    of freedom of Student's t, scaled to the same standard deviation (None: normal); `wild` the share of runs, and
    `wild_nights` that of nights, that are slower by up to 30 %; `missing` the share of nights without runs, `lost` that
    of lost runs.
    """

    run: float = 0.01
    night: float = 0.0
    phi: float = 0.0
    tails: float | None = None
    wild: float = 0.0
    wild_nights: float = 0.0
    missing: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True)
class History:
    """One series: `night`, `node` and `value` (runs,), nights ascending; values are seconds."""

    night: np.ndarray
    node: np.ndarray
    value: np.ndarray


def simulate(
    rng: np.random.Generator,
    nights: int,
    runs: int = 5,
    noise: Noise = Noise(),
    shift: tuple[int, float] | None = None,
    drift: tuple[int, float] | None = None,
    nodes: int = 16,
    slow: tuple[int, int, float] | None = None,
    level: float = 0.25,
) -> History:
    """A history of `nights` nights of `runs` runs, each on one of `nodes` nodes that differ by 0.3 %.

    `shift` (night, ratio) multiplies all values from a night on, `drift` (night, ratio a week) does so little by
    little, `slow` (node, night, ratio) makes one node slow from a night on.
    """
    night = np.repeat(np.arange(nights), runs)
    node = np.concatenate([np.resize(rng.permutation(nodes), runs) for _ in range(nights)])
    shared = rng.normal(0, 1, nights)
    for index in range(1, nights):
        shared[index] = noise.phi * shared[index - 1] + np.sqrt(1 - noise.phi**2) * shared[index]
    scatter = rng.normal(0, 1, len(night))
    if noise.tails:
        scatter = rng.standard_t(noise.tails, len(night)) / np.sqrt(noise.tails / (noise.tails - 2))
    log = np.log(level) + noise.run * scatter + noise.night * shared[night]
    log += 0.003 * rng.normal(0, 1, nodes)[node]
    log += np.where(rng.random(len(night)) < noise.wild, rng.uniform(0.03, 0.3, len(night)), 0)
    log += np.where(rng.random(nights) < noise.wild_nights, rng.uniform(0.03, 0.3, nights), 0)[night]
    if shift:
        log += np.where(night >= shift[0], np.log1p(shift[1]), 0)
    if drift:
        log += np.log1p(drift[1]) * np.maximum(night - drift[0], 0) / 7
    if slow:
        log += np.where((node == slow[0]) & (night >= slow[1]), np.log1p(slow[2]), 0)
    kept = (rng.random(len(night)) >= noise.lost) & (rng.random(nights) >= noise.missing)[night]
    return History(night[kept], node[kept], np.exp(log[kept]))


def records(nights: int, runs: int) -> Iterator[Record]:
    """Records of `runs` runs a night, on eight nodes, with all that a real one has."""
    rng = np.random.default_rng(0)
    first = datetime.date(2020, 1, 1)
    values = rng.normal(0.25, 0.0025, (nights, runs))
    for night in range(nights):
        date = (first + datetime.timedelta(night)).isoformat()
        for number in range(runs):
            step = float(values[night, number])
            yield record(date, number, step, node=f"node{(night + number) % 8}", benchmark=f"benchmark{number % 10}")


def record(
    night: str, number: int, step: float, node: str = "node0", benchmark: str = "resnet", **changes: Any
) -> Record:
    """One run of a night, whose steps took `step` seconds in the median."""
    spread = (0.9, 0.95, 0.97, 0.99, 1.0, 1.01, 1.05, 1.1, 1.5)
    facts = {
        "night": night,
        "started": f"{night[:10]}T02:00:00.000+00:00",
        "system": "cluster",
        "benchmark": benchmark,
        "config": "base",
        "number": number,
        "outcome": "cut",
        "nodes": (node,),
        "environment": "e" * 64,
        "values": {"step": step, "throughput": 408 / step, "init": 31.25},
        "steps": {"source": "steps", "count": 2000, "quantiles": [round(step * factor, 6) for factor in spread]},
        "curve": tuple((float(epoch), 0.1 * epoch) for epoch in range(8)),
        "cache": "system",
        "notes": (),
        "folder": f"nights/{night}/runs/cluster/{benchmark}/{number}",
        "log": f"{number:064x}",
    }
    return Record(**facts | changes)


def index_of(rng: np.random.Generator, nights: int, series: int, **planted: Any) -> Index:
    """An index of `series` benchmarks of one system, without files; `planted` as for `simulate`, in the first one."""
    runs, measures = [], []
    dates = [(datetime.date(2025, 1, 1) + datetime.timedelta(night)).isoformat() for night in range(nights)]
    for number in range(series):
        found = simulate(rng, nights, **(planted if number == 0 else {}))
        for place, (night, node, value) in enumerate(zip(found.night, found.node, found.value, strict=True)):
            one = record(dates[night], place, float(value), f"node{node}", f"benchmark{number:02}")
            measures.append((len(runs), "step", one.values["step"]))
            runs.append(run_of(one))
    order = sorted(range(len(runs)), key=lambda place: (runs[place].night, runs[place].benchmark))
    back = {old: new for new, old in enumerate(order)}
    return Index(tuple(runs[place] for place in order), tuple((back[run], *rest) for run, *rest in measures), ())


def run_of(one: Record) -> Run:
    """The record as the index has it."""
    fields = {name: getattr(one, name) for name in Run.__dataclass_fields__ if name not in ("path", "node")}
    return Run(path="", node=one.nodes[0], **fields)
