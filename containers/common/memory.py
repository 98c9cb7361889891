"""How much memory a step of training needs: the answer for somebody whose GPU is too small."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def training_bytes(model: nn.Module, shape: Sequence[int], bf16: bool) -> int:
    """Bytes that one step on an input of `shape` holds at least.

    They are what forward keeps for backward, in the precision of the convolutions, and for every parameter itself, its
    gradient and its momentum. Nothing is computed: the model's copy has shapes and no contents (device "meta").
    """
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    dtype = torch.bfloat16 if bf16 else torch.float32
    empty = copy.deepcopy(model).to("meta", dtype)
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage  # several operations may keep the same
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        empty(torch.empty(shape, device="meta", dtype=dtype))
    return 3 * parameters + sum(storage.nbytes() for storage in kept.values())


def gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def of_device(device: torch.device) -> str:
    """What the GPU is and has."""
    properties = torch.cuda.get_device_properties(device)
    return f"{properties.name} has {gib(properties.total_memory)}"
