"""Papers that are trained on and evaluated: the draw of split_seeds.py without PyTorch.

Source: mlcommons/training@aa344c7f, retired_benchmarks/rgat/split_seeds.py: torch.randperm with the seed 42. PyTorch
draws on the CPU with MT19937 and shuffles from the front, by the remainder of 32 bits for fewer than 2^32 / 20 items
(aten/src/ATen/native/TensorFactories.cpp, randperm_cpu), which all labelled papers are.
"""

from __future__ import annotations

from array import array

import numpy as np

SEED, TRAIN, EVALUATED = 42, 0.6, 0.005
MOST = (2**32 - 1) // 20  # from which on torch.randperm draws 64 bits
_BLOCK = 1 << 20


def split(labelled: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and evaluation papers among the first `labelled` ones; 4 bytes of memory for each."""
    train, evaluated = int(labelled * TRAIN), int(labelled * EVALUATED)
    shuffled = np.frombuffer(shuffle(labelled, train + evaluated, SEED), "i4").astype("<i8")
    return shuffled[:train], shuffled[train:]


def shuffle(count: int, wanted: int, seed: int) -> array:
    """The first `wanted` of torch.randperm(count) after torch.manual_seed(seed)."""
    order, draw = array("i", range(count)), np.random.RandomState(seed)
    wanted = min(wanted, count)
    for start in range(0, wanted, _BLOCK):
        places = np.arange(start, min(start + _BLOCK, wanted))
        drawn = draw.randint(0, 1 << 32, len(places), np.uint32).astype(np.int64)
        for place, other in zip(places.tolist(), (places + drawn % (count - places)).tolist(), strict=True):
            order[place], order[other] = order[other], order[place]
    return order[:wanted]
