"""The transducer loss: minus the logarithm of the summed probability of all alignments.

Graves 2012, section 2.4. An alignment walks from (frame 0, label 0): a label moves along u, a blank moves along t.
Along u, alpha[t, u] = logaddexp(alpha[t-1, u] + blank[t-1, u], alpha[t, u-1] + emit[t, u-1]) is linear in the
probabilities, so a row is one cumulative sum: with E = cumsum(emit[t]),
alpha[t] = E + logcumsumexp(alpha[t-1] + blank[t-1] - E). One vector step a frame, and autograd goes back through it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def transducer_loss(logits: Tensor, labels: Tensor, frames: Tensor, label_counts: Tensor, blank: int) -> Tensor:
    """Mean loss of the batch, in nats.

    logits (batch, T, U + 1, symbols), labels (batch, U) padded with any valid label, frames and label_counts (batch)
    with frames >= 1. Computes in float32, or in float64 when the logits are.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    normaliser = logits.logsumexp(-1)
    blanks = logits[..., blank] - normaliser
    index = labels[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
    emits = logits[:, :, :-1].gather(-1, index).squeeze(-1) - normaliser[:, :, :-1]

    to_label = F.pad(emits.cumsum(-1), (1, 0))  # log-probability of the first u labels, all in this frame
    alpha = to_label[:, 0]
    alphas = [alpha]
    for t in range(1, logits.shape[1]):
        alpha = to_label[:, t] + torch.logcumsumexp(alpha + blanks[:, t - 1] - to_label[:, t], -1)
        alphas.append(alpha)
    utterance, last = torch.arange(len(frames), device=frames.device), frames - 1
    ends = torch.stack(alphas, 1)[utterance, last, label_counts] + blanks[utterance, last, label_counts]
    return -ends.mean()
