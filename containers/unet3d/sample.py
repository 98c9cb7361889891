"""Generated volumes for the self-test (common/selftest.py): three steps of two, and one case to evaluate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

# The target is below any dice: the test is whether it trains, not what it learns.
SETTINGS = {
    **{"GLOBAL_BATCH_SIZE": 2, "GRADIENT_ACCUMULATION_STEPS": 1, "WARMUP_EPOCHS": 0, "BASE_LEARNING_RATE": 0.01},
    **{"TRAIN_SAMPLES": 6, "EVAL_SAMPLES": 1},
    **{"FIRST_EVAL": 1, "EVAL_EVERY": 1, "MAX_EPOCHS": 1, "TARGET": -1},
}
CASES, SHAPE = 7, (1, 16, 20, 24)


def write(folder: Path) -> None:
    """`case_%05d_{x,y}.npy` and the lists of cases: the layout `npy`, read by data.py."""
    random = np.random.default_rng(0)
    for number in range(CASES):
        label = np.zeros(SHAPE, np.uint8)
        label[:, 4:10, 4:10, 4:10], label[:, 6:8, 6:8, 6:8] = 1, 2
        image = label + random.normal(0, 0.1, SHAPE).astype(np.float32)
        np.save(folder / f"case_{number:05d}_x.npy", image.astype(np.float32))
        np.save(folder / f"case_{number:05d}_y.npy", label)
    names = [f"{number:05d}\n" for number in range(CASES)]
    (folder / "train_cases.txt").write_text("".join(names[:-1]))
    (folder / "evaluation_cases.txt").write_text(names[-1])
