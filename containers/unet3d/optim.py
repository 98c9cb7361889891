"""SGD with Nesterov momentum and the learning rate of an epoch, as plain functions over lists of tensors.

Source: MLPerf Training reference, unet3d, runtime/training.py. torch.optim is not used: it would import the compiler,
which costs every process more than a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def sgd_step(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    velocities: Sequence[Tensor],
    rate: float,
    momentum: float,
    weight_decay: float,
) -> None:
    """v = momentum v + g; w -= rate (g + momentum v), in place; g holds the weight decay. Start with v = 0."""
    if weight_decay:
        gradients = torch._foreach_add(gradients, parameters, alpha=weight_decay)
    torch._foreach_mul_(velocities, momentum)
    torch._foreach_add_(velocities, gradients)
    torch._foreach_add_(parameters, gradients, alpha=-rate)
    torch._foreach_add_(parameters, velocities, alpha=-rate * momentum)


def learning_rate(
    epoch: int,
    base: float,
    initial: float,
    warmup_epochs: int,
    decay_epochs: Sequence[int] = (),
    decay_factor: float = 1.0,
) -> float:
    """Rate of `epoch` (from 1): linear from `initial` to `base`, then `base` times the factor per boundary passed."""
    if epoch <= warmup_epochs:
        return initial + (base - initial) * epoch / warmup_epochs
    return base * decay_factor ** sum(epoch > boundary for boundary in decay_epochs)
