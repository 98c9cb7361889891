"""A sample as NVIDIA's and AMD's images read it.

Source: training_results_v4.0, NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo/scripts/convert_dataset.py.
The loss counts where a label is not -100; each sample is one sequence from 0 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from podium.data.formats import objects
from podium.data.govreport import parquet
from podium.errors import BadInput

LONGEST = 8192  # tokens of a sample
VOCABULARY = 32_000  # of Llama 2
IGNORED = -100  # the label of a token that does not count
KEYS = ("input_ids", "loss_mask", "seq_start_id")


def convert(path: Path, to: Path, take: int = 0) -> int:
    """Write the samples of a split, only the first ones if `take`, and return how many; nothing is done where they are.

    Raises BadInput for a sample that is not as the benchmark has them.
    """
    count = parquet.count(path)
    count = min(count, take) if take else count
    if not to.exists():
        objects.write(to, count, islice(_rows(path), count))
    return count


def _rows(path: Path) -> Iterator[objects.Row]:
    for number, (ids, labels) in enumerate(parquet.samples(path), 1):
        if problem := wrong(ids, labels):
            raise BadInput(f"{path}: sample {number}", "one of the benchmark", problem, parquet.NEXT)
        yield dict(zip(KEYS, (ids, (labels != IGNORED).tobytes(), b"\0"), strict=True))


def wrong(ids: np.ndarray, marked: np.ndarray) -> str:
    """What keeps tokens, and what marks those that count, from being a sample; empty if nothing does."""
    if not 0 < len(ids) <= LONGEST:
        return f"{len(ids)} tokens, where 1 to {LONGEST} are expected"
    if len(ids) != len(marked):
        return f"{len(ids)} tokens and {len(marked)} labels"
    if ids.min() < 0 or ids.max() >= VOCABULARY:
        return f"tokens from {ids.min()} to {ids.max()}, where the vocabulary has {VOCABULARY}"
    return ""
