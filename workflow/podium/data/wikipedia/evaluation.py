"""Which of the held-out instances the benchmark evaluates on."""

from __future__ import annotations

import numpy as np


def picked(count: int, wanted: int) -> np.ndarray:
    """Row numbers, evenly spread: int(i * count / wanted), computed as pick_eval_samples.py does; all when there are
    not more than wanted.
    """
    if count <= wanted:
        return np.arange(count)
    step = count / wanted
    return np.array([int(i * step) for i in range(wanted)])
