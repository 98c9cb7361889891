"""LAMB, clipping, the learning rate and the average of the weights, as plain functions over lists of tensors.

As in the reference: apex FusedLAMB with its clipping, common/optimizers.py for the rate, train.py for the average.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Moments:
    """What LAMB remembers: steps done, and the running means of the gradients and of their squares."""

    step: int
    means: list[Tensor]
    squares: list[Tensor]


def start(weights: list[Tensor]) -> Moments:
    """No step done yet."""
    return Moments(0, [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights])


@torch.no_grad()
def clip(gradients: list[Tensor], limit: float) -> None:
    """Scale all gradients together, in place, so that their global L2 norm is at most `limit`."""
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    torch._foreach_mul_(gradients, (limit / norm).clamp(max=1.0))


@torch.no_grad()
def lamb(
    weights: list[Tensor],
    gradients: list[Tensor],
    moments: Moments,
    rate: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: float,
) -> None:
    """One step of LAMB (You et al. 2020) in place, with bias correction and weight decay on every tensor.

    A tensor moves by rate * |weight| * direction, the direction being update / |update|; where either norm is zero,
    by rate * update.
    """
    moments.step += 1
    torch._foreach_lerp_(moments.means, gradients, 1 - beta_1)
    torch._foreach_mul_(moments.squares, beta_2)
    torch._foreach_addcmul_(moments.squares, gradients, gradients, 1 - beta_2)

    roots = torch._foreach_sqrt(torch._foreach_div(moments.squares, 1 - beta_2**moments.step))
    torch._foreach_add_(roots, epsilon)
    updates = torch._foreach_div(torch._foreach_div(moments.means, 1 - beta_1**moments.step), roots)
    torch._foreach_add_(updates, weights, alpha=weight_decay)

    weight_norms = torch.stack(torch._foreach_norm(weights))
    update_norms = torch.stack(torch._foreach_norm(updates))
    trust = (weight_norms / update_norms).where((weight_norms > 0) & (update_norms > 0), 1.0)
    torch._foreach_mul_(updates, list(trust * rate))
    torch._foreach_sub_(weights, updates)


def learning_rate(
    step: int, steps_per_epoch: int, base: float, warmup_epochs: int, hold_epochs: int, gamma: float, minimum: float
) -> float:
    """The rate of `step` (from 1): linear warm-up, hold, then gamma less with every epoch; never below `minimum`."""
    warmup, hold = warmup_epochs * steps_per_epoch, hold_epochs * steps_per_epoch
    if step < warmup:
        factor = (step + 1) / (warmup + 1)
    elif step < warmup + hold:
        factor = 1.0
    else:
        epoch = (step - 1) // steps_per_epoch + 1
        factor = gamma ** (epoch - warmup_epochs - hold_epochs)
    return max(base * factor, minimum)


@torch.no_grad()
def update_average(averages: list[Tensor], weights: list[Tensor], decay: float) -> None:
    """Exponential moving average in place: decay * average + (1 - decay) * weight."""
    torch._foreach_lerp_(averages, weights, 1 - decay)
