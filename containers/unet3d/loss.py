"""What is minimised (cross entropy and soft dice) and what is measured (hard dice).

Source: MLPerf Training reference, unet3d, model/losses.py. The background counts in the cross entropy, not in the dice.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SMOOTH = 1e-6  # makes the dice of a class that is neither there nor predicted 1


def dice(prediction: Tensor, truth: Tensor) -> Tensor:
    """Dice of kidney and tumour: (N, 3, D, H, W) probabilities or one-hot, twice -> (N, 2)."""
    prediction, truth = prediction[:, 1:], truth[:, 1:]
    overlap = (prediction * truth).sum(dim=(2, 3, 4))
    total = prediction.sum(dim=(2, 3, 4)) + truth.sum(dim=(2, 3, 4))
    return (2 * overlap + SMOOTH) / (total + SMOOTH)


def one_hot(label: Tensor, classes: int) -> Tensor:
    """(N, D, H, W) class numbers -> (N, classes, D, H, W) float."""
    return F.one_hot(label.long(), classes).movedim(-1, 1).float()


def dice_ce_loss(logits: Tensor, label: Tensor) -> Tensor:
    """(cross entropy + 1 - soft dice) / 2; `logits` (N, 3, D, H, W), `label` (N, D, H, W)."""
    cross_entropy = F.cross_entropy(logits, label.long())
    soft_dice = dice(logits.softmax(dim=1), one_hot(label, logits.shape[1]))
    return (cross_entropy + (1 - soft_dice).mean()) / 2


def dice_score(logits: Tensor, label: Tensor) -> Tensor:
    """Dice of the most probable class, (2,) in fp64; `logits` (3, D, H, W), `label` (D, H, W). Counts are exact."""
    prediction = logits.argmax(dim=0)
    scores = []
    for kind in range(1, logits.shape[0]):
        predicted, there = prediction == kind, label == kind
        overlap, total = (predicted & there).sum(), predicted.sum() + there.sum()
        scores.append((2 * overlap.double() + SMOOTH) / (total.double() + SMOOTH))
    return torch.stack(scores)
