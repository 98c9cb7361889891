"""LARS and SGD as plain functions over lists of tensors, and the schedule of the learning rate.

They are not `torch.optim` classes: PyTorch has no LARS, its SGD keeps the learning rate outside the momentum, and
its optimiser classes import the compiler, which costs every process a second. Formulas: MLPerf's TensorFlow 2
reference of ResNet (`lars_optimizer.py`, `lars_util.py`). Both rules overwrite the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

POWER = 2  # of the polynomial that the learning rate follows
TRUST_COEFFICIENT = 0.001
EPSILON = 1e-7  # the reference logs 0.0, for which Keras uses its own smallest number


def sgd(weights: list[Tensor], momenta: list[Tensor], lr: float, momentum: float, decay: float) -> None:
    """v = momentum v - lr (g + decay w); w = w + v."""
    gradients = _gradients(weights)
    if decay:
        torch._foreach_add_(gradients, weights, alpha=decay)
    torch._foreach_mul_(momenta, momentum)
    torch._foreach_add_(momenta, gradients, alpha=-lr)
    torch._foreach_add_(weights, momenta)


def lars(weights: list[Tensor], momenta: list[Tensor], lr: float, momentum: float, decay: float) -> None:
    """SGD whose learning rate is scaled per tensor by 0.001 |w| / (|g| + decay |w| + epsilon), 1 if a norm is 0."""
    gradients = _gradients(weights)
    size = torch.stack(torch._foreach_norm(weights))
    slope = torch.stack(torch._foreach_norm(gradients))
    trust = TRUST_COEFFICIENT * size / (slope + decay * size + EPSILON)
    trust = torch.where((size > 0) & (slope > 0), trust, 1.0)
    torch._foreach_add_(gradients, weights, alpha=decay)
    torch._foreach_mul_(gradients, list((-lr * trust).unbind()))
    torch._foreach_mul_(momenta, momentum)
    torch._foreach_add_(momenta, gradients)
    torch._foreach_add_(weights, momenta)


@dataclass(frozen=True)
class Group:
    """Parameters that are updated in the same way."""

    update: Callable[[list[Tensor], list[Tensor], float, float, float], None]
    weights: list[Tensor]
    momenta: list[Tensor]
    decay: float


def groups(name: str, model: nn.Module, decay: float) -> list[Group]:
    """Sort the model's parameters into groups for `lars` or `sgd`.

    LARS updates biases and batch normalisation without decay and without the trust ratio. With SGD, `decay * |w|^2` of
    all but batch normalisation is part of the reference's loss, hence the gradient 2 decay w.
    """
    kernels, biases, norms = [], [], []
    for layer in model.modules():
        for parameter in layer.parameters(recurse=False):
            if isinstance(layer, nn.BatchNorm2d):
                norms.append(parameter)
            else:
                (kernels if parameter.ndim > 1 else biases).append(parameter)
    if name == "lars":
        return [_group(lars, kernels, decay), _group(sgd, biases + norms, 0.0)]
    return [_group(sgd, kernels + biases, 2 * decay), _group(sgd, norms, 0.0)]


@torch.no_grad()
def step(groups: list[Group], lr: float, momentum: float) -> None:
    """Update every group once."""
    for group in groups:
        group.update(group.weights, group.momenta, lr, momentum, group.decay)


def polynomial(step: int, base: float, warmup: int, decay: int, end: float) -> float:
    """The learning rate of a step, counted from 0: up to `base` in `warmup` steps, then down to `end` in `decay`."""
    if step <= warmup and warmup > 0:
        return base * step / warmup
    return (base - end) * (1 - min(step - warmup, decay) / decay) ** POWER + end


def _group(update: Callable, weights: list[Tensor], decay: float) -> Group:
    return Group(update, weights, [torch.zeros_like(weight) for weight in weights], decay)


def _gradients(weights: list[Tensor]) -> list[Tensor]:
    return [weight.grad for weight in weights]
