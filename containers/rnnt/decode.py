"""From features to words, and how many of the words are wrong.

Greedy decoding as in the reference (rnnt/decoder.py), for a whole batch at once; every utterance keeps its own place
in time, so the labels are the same as for one utterance alone.
"""

from __future__ import annotations

import torch
from model import Transducer
from torch import Tensor


@torch.no_grad()
def greedy(
    model: Transducer, encoded: Tensor, frames: Tensor, max_symbols: int = 300, max_symbols_per_frame: int = 30
) -> list[list[int]]:
    """The labels of each utterance of `encoded` (batch, T, joint_hidden) with so many frames (batch).

    In a frame the likeliest symbol is taken again and again until it is the blank, or until the frame has given
    `max_symbols_per_frame`. An utterance with more than `max_symbols` labels gets no further frame.
    """
    everyone = torch.arange(len(frames), device=encoded.device)
    frame = torch.zeros_like(frames)
    total, in_frame = torch.zeros_like(frames), torch.zeros_like(frames)
    start = model.embedding.weight.new_zeros(1, len(frames), model.embedding.embedding_dim)
    predicted, state = model.predict(start)
    taken = []
    while (active := frame < frames).any():
        here = encoded[everyone, frame.clamp(max=encoded.shape[1] - 1)]
        symbol = model.joint(here, predicted[:, 0]).argmax(-1).where(active, model.blank)
        taken.append(symbol)
        emits = symbol != model.blank
        if emits.any():
            after, after_state = model.predict(model.embedding(symbol.where(emits, 0))[None], state)
            predicted = after.where(emits[:, None, None], predicted)
            state = tuple(new.where(emits[None, :, None], old) for new, old in zip(after_state, state, strict=True))
        total, in_frame = total + emits, in_frame + emits
        leaves = ~emits | (in_frame == max_symbols_per_frame)
        frame = frame + leaves
        in_frame = in_frame.where(~leaves, 0)
        frame = frames.where(leaves & (total > max_symbols), frame)
    rows = torch.stack(taken, 1).tolist()
    return [[symbol for symbol in row if symbol != model.blank] for row in rows]


def word_edits(hypothesis: str, reference: str) -> int:
    """Levenshtein distance in words: substitutions, insertions and deletions that make one from the other."""
    said, meant = hypothesis.split(), reference.split()
    row = list(range(len(meant) + 1))
    for i, word in enumerate(said, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(meant, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]
