"""Simulated histories of nights with known content: noise of several kinds, shifts, drifts, a slow node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
    node = np.concatenate([rng.permutation(nodes)[:runs] for _ in range(nights)]) if nodes > 1 else np.zeros_like(night)
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
