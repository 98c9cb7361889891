"""Generated sequences for the self-test (common/selftest.py): three steps of four, and four to evaluate."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

SETTINGS = {
    **{"MAX_POSITION_EMBEDDINGS": 16, "GLOBAL_BATCH_SIZE": 4, "GRADIENT_ACCUMULATION_STEPS": 1},
    **{"BASE_LEARNING_RATE": 0.001, "TRAINING_STEPS": 3, "WARMUP_STEPS": 0, "EVAL_INTERVAL": 12},
    **{"EVAL_SAMPLES": 4, "TARGET": 0},
}
VOCABULARY, TOKENS, MASKED = 40, 16, 3


def write(folder: Path) -> None:
    """`train/part_00000_of_00001.hdf5`, `eval/part_eval.hdf5`, `vocab.txt`: the layout `hdf5`, read by data.py."""
    random = np.random.default_rng(0)
    (folder / "vocab.txt").write_text("".join(f"word{number}\n" for number in range(VOCABULARY)))
    for name, count in (("train/part_00000_of_00001", 12), ("eval/part_eval", 4)):
        path = folder / f"{name}.hdf5"
        path.parent.mkdir()
        places = np.sort(random.permuted(np.tile(np.arange(1, TOKENS), (count, 1)), axis=1)[:, :MASKED])
        with h5py.File(path, "w") as file:
            file["input_ids"] = random.integers(1, VOCABULARY, (count, TOKENS)).astype("i2")
            file["input_mask"] = np.ones((count, TOKENS), "i1")
            file["segment_ids"] = np.repeat([[0] * 8 + [1] * 8], count, axis=0).astype("i1")
            file["masked_lm_positions"] = places.astype("i2")
            file["masked_lm_ids"] = random.integers(1, VOCABULARY, (count, MASKED)).astype("i2")
            file["next_sentence_labels"] = random.integers(0, 2, count).astype("i1")
