"""LAMB, gradient clipping and the learning-rate schedule of the reference, as functions over lists of tensors.

Source: mlcommons/training, retired_benchmarks/bert/lamb_optimizer_v1.py and optimization.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Moments:
    """What LAMB remembers: for each parameter the averages of the gradient and of its square, and the step count."""

    first: list[Tensor]
    second: list[Tensor]
    step: int = 0


def zero_moments(parameters: Sequence[Tensor]) -> Moments:
    """The state before the first step."""
    return Moments([torch.zeros_like(p) for p in parameters], [torch.zeros_like(p) for p in parameters])


def is_excluded(name: str) -> bool:
    """Whether a parameter gets neither weight decay nor a trust ratio: biases and layer norms."""
    return "layer_norm" in name or name.endswith("bias")


@torch.no_grad()
def clip_by_global_norm(gradients: Sequence[Tensor], limit: float) -> None:
    """Scale all gradients in place so that their common norm is at most `limit`."""
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    torch._foreach_mul_(gradients, limit / norm.clamp(min=limit))


@torch.no_grad()
def lamb_step(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    excluded: Sequence[bool],
    moments: Moments,
    *,
    learning_rate: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: float,
) -> None:
    """Update `parameters` and `moments` in place.

    update = m^ / (sqrt(v^) + epsilon) + weight_decay * w, with bias-corrected m^ and v^;
    w -= learning_rate * |w| / |update| * update. Where `excluded`, both the decay and the ratio are left out;
    the ratio is 1 where a norm is 0.
    """
    moments.step += 1
    torch._foreach_lerp_(moments.first, gradients, 1 - beta_1)
    torch._foreach_mul_(moments.second, beta_2)
    torch._foreach_addcmul_(moments.second, gradients, gradients, 1 - beta_2)

    denominators = torch._foreach_div(moments.second, 1 - beta_2**moments.step)
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, epsilon)
    updates = torch._foreach_div(moments.first, 1 - beta_1**moments.step)
    torch._foreach_div_(updates, denominators)

    decayed = [i for i, out in enumerate(excluded) if not out]
    weights, steps = [parameters[i] for i in decayed], [updates[i] for i in decayed]
    torch._foreach_add_(steps, weights, alpha=weight_decay)
    weight_norms, step_norms = torch.stack(torch._foreach_norm(weights)), torch.stack(torch._foreach_norm(steps))
    ratios = torch.where((weight_norms > 0) & (step_norms > 0), weight_norms / step_norms, 1.0)
    torch._foreach_mul_(steps, list(ratios.unbind()))
    torch._foreach_add_(parameters, updates, alpha=-learning_rate)


def learning_rate_at(step: int, peak: float, training_steps: int, warmup_steps: int, start_step: int) -> float:
    """The rate of `step`, counted from 0: linear warm-up from `start_step` (0 or negative), then linear decay to 0."""
    if step - start_step < warmup_steps:
        return peak * (step - start_step) / warmup_steps
    return peak * (1 - min(step, training_steps) / training_steps)
