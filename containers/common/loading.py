"""Data that other processes load ahead."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator

from torch.utils.data import DataLoader

from common.contract import stop

PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with_parent(worker: int) -> None:
    """Have Linux end this worker with the process that it loads for, however that one ends (`worker_init_fn`).

    One that has loaded ahead would wait for ever to hand it on.
    """
    del worker
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def items(loader: DataLoader) -> Iterator:
    """What the loader gives, in order. Ends the process with status 2 where one of its workers has ended.

    A worker that cannot read its data says why and ends; PyTorch tells the training process no more than that it has.
    """
    ahead = iter(loader)
    while True:
        try:
            item = next(ahead, None)
        except RuntimeError as error:
            if not loader.num_workers:
                raise
            stop(f"WORKERS={loader.num_workers}: one has ended, and said why above if it could: {error}")
        if item is None:
            return
        yield item
