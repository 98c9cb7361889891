"""The recurrent neural network transducer of the reference: encoder, prediction network and joint network.

Graves, "Sequence Transduction with Recurrent Neural Networks", 2012; sizes and initial values from the MLPerf
reference, rnnt/pytorch: rnnt/model.py, common/rnn.py, configs/baseline_v3-1023sp.yaml. 49,006,080 parameters as
the defaults stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from loss import log_probabilities
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

State = tuple[Tensor, Tensor]


class Group(NamedTuple):
    """Utterances `first` .. `last` - 1 of a batch have at most so many frames after stacking, and so many labels."""

    first: int
    last: int
    frames: int
    labels: int


class Alignments(NamedTuple):
    """Log-probabilities of the blank (batch, T, U + 1) and of the next label (batch, T, U); frames (batch)."""

    blanks: Tensor
    emits: Tensor
    frames: Tensor


class LSTM(nn.Module):
    """A stack of one-way LSTM layers with dropout between the layers and, as in the reference, after the last too."""

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float, init_scale: float) -> None:
        super().__init__()
        self.layers = nn.LSTM(inputs, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            for name, parameter in self.layers.named_parameters():
                forget_gate = slice(hidden, 2 * hidden)  # torch's order of gates: input, forget, cell, output
                if name.startswith("bias_ih"):
                    parameter[forget_gate] = 1.0
                elif name.startswith("bias_hh"):
                    parameter[forget_gate] = 0.0
                parameter *= init_scale

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(time, batch, inputs) -> (time, batch, hidden) and the state after the last step."""
        x, state = self.layers(x, state)
        return self.dropout(x), state


class Transducer(nn.Module):
    """`symbols` counts the blank, which is the last one; labels are 0 .. symbols - 2."""

    def __init__(
        self,
        symbols: int = 1024,
        inputs: int = 240,
        encoder_hidden: int = 1024,
        encoder_pre_layers: int = 2,
        encoder_post_layers: int = 3,
        encoder_stack: int = 2,
        predictor_hidden: int = 512,
        predictor_layers: int = 2,
        joint_hidden: int = 512,
        encoder_dropout: float = 0.1,
        predictor_dropout: float = 0.3,
        joint_dropout: float = 0.3,
        init_scale: float = 0.5,
    ) -> None:
        super().__init__()
        self.blank = symbols - 1
        self.stack = encoder_stack
        self.pre = LSTM(inputs, encoder_hidden, encoder_pre_layers, encoder_dropout, init_scale)
        self.post = LSTM(
            encoder_stack * encoder_hidden, encoder_hidden, encoder_post_layers, encoder_dropout, init_scale
        )
        self.embedding = nn.Embedding(symbols - 1, predictor_hidden)
        self.predictor = LSTM(predictor_hidden, predictor_hidden, predictor_layers, predictor_dropout, init_scale)
        self.joint_encoder = nn.Linear(encoder_hidden, joint_hidden)
        self.joint_predictor = nn.Linear(predictor_hidden, joint_hidden)
        self.joint_dropout = nn.Dropout(joint_dropout)
        self.joint_output = nn.Linear(joint_hidden, symbols)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(time, batch, inputs) -> (batch, ceil(time / stack), joint_hidden), with the lengths in such frames."""
        x, _ = self.pre(features)
        x, _ = self.post(stack_frames(x, self.stack))
        return self.joint_encoder(x.transpose(0, 1)), -(-lengths // self.stack)

    def predict(self, embedded: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Embedded labels (labels, batch, predictor_hidden) -> (batch, labels, joint_hidden) and the new state.

        The start of a sentence is the zero vector in place of an embedding.
        """
        x, state = self.predictor(embedded, state)
        return self.joint_predictor(x.transpose(0, 1)), state

    def joint(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        """Logits of every symbol for the two parts added; broadcasts over all but the last dimension."""
        return self.joint_output(self.joint_dropout(F.relu(encoded + predicted)))

    def forward(self, features: Tensor, lengths: Tensor, labels: Tensor, groups: Sequence[Group]) -> Alignments:
        """What the loss needs of an utterance's alignments with its labels (batch, labels).

        The joint network sees one group after the other, each cut to its own size. Where there are several, the
        logits are not kept but computed again on the way back: one group's are in memory at a time.
        """
        encoded, frames = self.encode(features, lengths)
        after_start = F.pad(self.embedding(labels.T), (0, 0, 0, 0, 1, 0))
        predicted, _ = self.predict(after_start)
        blanks, emits = [], []
        for group in groups:
            rows, t, u = slice(group.first, group.last), group.frames, group.labels
            parts = encoded[rows, :t], predicted[rows, : u + 1], labels[rows, :u]
            if len(groups) > 1:
                blank, emit = checkpoint(self.align, *parts, use_reentrant=False)
            else:
                blank, emit = self.align(*parts)
            missing = (0, labels.shape[1] - u, 0, encoded.shape[1] - t)
            blanks.append(F.pad(blank, missing))
            emits.append(F.pad(emit, missing))
        return Alignments(torch.cat(blanks), torch.cat(emits), frames)

    def align(self, encoded: Tensor, predicted: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the blank and of the next label everywhere; all three arguments are batch first."""
        return log_probabilities(self.joint(encoded[:, :, None], predicted[:, None]), labels, self.blank)


def stack_frames(x: Tensor, count: int) -> Tensor:
    """Put `count` neighbouring frames side by side: (time, batch, n) -> (ceil(time / count), batch, count * n)."""
    time, batch, width = x.shape
    x = F.pad(x, (0, 0, 0, 0, 0, -time % count))
    return x.unflatten(0, (-1, count)).transpose(1, 2).reshape(-1, batch, count * width)
