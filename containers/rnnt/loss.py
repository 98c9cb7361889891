"""The transducer loss: minus the logarithm of the summed probability of all alignments (Graves 2012, section 2.4).

An alignment walks through a lattice of frames t and labels u, from (0, 0) to the last of both: a blank moves along t, a
label moves along u. So of all the symbols' logits only two log-probabilities of each place matter. The loss takes
those, and the logits of a large batch never have to be in memory at once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


def log_probabilities(logits: Tensor, labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Of the blank (batch, T, U + 1) and of the next label (batch, T, U), in float32, or float64 as the logits.

    logits (batch, T, U + 1, symbols), labels (batch, U) padded with any valid label.
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    normaliser = logits.logsumexp(-1)
    index = labels[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
    emits = logits[:, :, :-1].gather(-1, index).squeeze(-1)
    return logits[..., blank] - normaliser, emits - normaliser[:, :, :-1]


def transducer_loss(blanks: Tensor, emits: Tensor, frames: Tensor, label_counts: Tensor) -> Tensor:
    """Mean loss of the batch, in nats.

    blanks (batch, T, U + 1) and emits (batch, T, U) are log-probabilities, finite even beyond the frames (batch), 1 or
    more, and label_counts (batch) of an utterance, where they play no part.
    """
    return _TransducerLoss.apply(blanks, emits, frames, label_counts)


class _TransducerLoss(torch.autograd.Function):
    """Computed with its gradient: minus the share of all alignments' probability that takes an arc of the lattice."""

    @staticmethod
    def forward(ctx: FunctionCtx, blanks: Tensor, emits: Tensor, frames: Tensor, label_counts: Tensor) -> Tensor:
        blank, emit = blanks.double(), emits.double()
        _, last_frame, last_label = ends = torch.arange(len(frames), device=frames.device), frames - 1, label_counts

        # alpha[t, u] is the log-probability of all ways from the start to (t, u), beta[t, u] of all from there through
        # the last blank. Turned round, with the end as its start, beta is the same recursion: both run as one batch.
        turn = _turned(last_frame, last_label, *blank.shape[1:])
        starts = torch.cat([torch.zeros_like(blank[:, 0, 0]), blank[ends]])
        to_next_frame = torch.cat([F.pad(blank, (0, 0, 1, -1)), blank[turn]])
        to_next_label = torch.cat([emit, F.pad(emit, (0, 1))[turn][:, :, 1:]])
        alpha, beta = _walks(starts, to_next_frame, to_next_label).chunk(2)
        beta = beta[turn].masked_fill(_beyond(last_frame, last_label, *blank.shape[1:]), -torch.inf)

        total = beta[:, 0, 0]
        after_blank = F.pad(beta, (0, 0, 0, 1), value=-torch.inf)[:, 1:]
        after_blank[ends] = 0.0  # the last blank of all ends the walk
        before = alpha - total[:, None, None]
        shares = (before + blank + after_blank).exp(), (before[:, :, :-1] + emit + beta[:, :, 1:]).exp()
        ctx.save_for_backward(*(share.div(-len(frames)).to(blanks.dtype) for share in shares))
        return -total.mean().to(blanks.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_blanks, to_emits = ctx.saved_tensors
        return slope * to_blanks, slope * to_emits, None, None


def _walks(starts: Tensor, to_next_frame: Tensor, to_next_label: Tensor) -> Tensor:
    """Log-probabilities (batch, T, U + 1) of all walks from (0, 0), which has `starts`, to each place.

    to_next_frame[t, u] is that of the step from (t - 1, u) to (t, u), to_next_label[t, u] of (t, u) to (t, u + 1).
    walks[t, u] = logaddexp(walks[t - 1, u] + to_next_frame[t, u], walks[t, u - 1] + to_next_label[t, u - 1]) is linear
    in the probabilities, so a row is one cumulative sum: with E = cumsum(to_next_label[t]),
    walks[t] = E + logcumsumexp(walks[t - 1] + to_next_frame[t] - E). One vector step a frame.
    """
    along = F.pad(to_next_label.cumsum(-1), (1, 0))
    row = starts[:, None] + along[:, 0]
    rows = [row]
    steps = to_next_frame - along
    for t in range(1, along.shape[1]):
        row = along[:, t] + torch.logcumsumexp(row + steps[:, t], -1)
        rows.append(row)
    return torch.stack(rows, 1)


def _turned(last_frame: Tensor, last_label: Tensor, frames: int, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Indices that turn each lattice (batch, frames, labels) round, so that its end comes first; and back again."""
    utterance = torch.arange(len(last_frame), device=last_frame.device)
    t = (last_frame[:, None] - torch.arange(frames, device=last_frame.device)).clamp(min=0)
    u = (last_label[:, None] - torch.arange(labels, device=last_frame.device)).clamp(min=0)
    return utterance[:, None, None], t[:, :, None], u[:, None, :]


def _beyond(last_frame: Tensor, last_label: Tensor, frames: int, labels: int) -> Tensor:
    """Which places (batch, frames, labels) an utterance does not have."""
    t, u = torch.arange(frames, device=last_frame.device), torch.arange(labels, device=last_frame.device)
    return (t > last_frame[:, None])[:, :, None] | (u > last_label[:, None])[:, None, :]
