"""BERT with its two pre-training heads, as the reference defines it: post-LN encoder, tanh gelu, tied masked-LM head.

Source: mlcommons/training, retired_benchmarks/bert/modeling.py and run_pretraining.py.
Shapes: N rows of T tokens, with S sequences and M masked words in all; H hidden size, V vocabulary size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYER_NORM_EPSILON = 1e-12
OTHERS = -10000.0  # added to the scores of what does not belong to the same sequence


@dataclass(frozen=True)
class Sizes:
    """The sizes of the net; the defaults are BERT-large, uncased: 336,226,108 parameters."""

    vocab_size: int = 30522
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.1  # of hidden states and of attention probabilities
    initializer_range: float = 0.02  # sigma of the truncated normal, cut at two sigma


class Embeddings(nn.Module):
    """The sum of word, position and segment embeddings, normalised."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.word = nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.position = nn.Embedding(sizes.max_position_embeddings, sizes.hidden_size)
        self.segment = nn.Embedding(sizes.type_vocab_size, sizes.hidden_size)
        self.layer_norm = nn.LayerNorm(sizes.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, input_ids: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        """(N, T) three times -> (N, T, H)."""
        total = self.word(input_ids) + self.position(positions) + self.segment(segments)
        return self.dropout(self.layer_norm(total))


class Attention(nn.Module):
    """Multi-head self-attention with its output projection; scores are scaled by 1 / sqrt(H / heads)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads, self.dropout = sizes.num_attention_heads, sizes.dropout
        self.query = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.key = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.value = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.output = nn.Linear(sizes.hidden_size, sizes.hidden_size)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """(N, T, H), bias (N, 1, T, T) added to the scores -> (N, T, H)."""
        query, key, value = (
            layer(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias.to(query.dtype), dropout_p=self.dropout if self.training else 0.0
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """One encoder layer; the layer norm comes after each residual sum (post-LN)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention = Attention(sizes)
        self.attention_layer_norm = nn.LayerNorm(sizes.hidden_size, eps=LAYER_NORM_EPSILON)
        self.intermediate = nn.Linear(sizes.hidden_size, sizes.intermediate_size)
        self.output = nn.Linear(sizes.intermediate_size, sizes.hidden_size)
        self.output_layer_norm = nn.LayerNorm(sizes.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """(N, T, H) -> (N, T, H)."""
        hidden = self.attention_layer_norm(hidden + self.dropout(self.attention(hidden, bias)))
        inner = functional.gelu(self.intermediate(hidden), approximate="tanh")
        return self.output_layer_norm(hidden + self.dropout(self.output(inner)))


class MaskedLanguageHead(nn.Module):
    """Scores over the vocabulary; the output weights are the word embeddings (tied), so only the bias is its own."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.transform = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.layer_norm = nn.LayerNorm(sizes.hidden_size, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(torch.zeros(sizes.vocab_size))

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """(M, H), (V, H) -> (M, V)."""
        hidden = self.layer_norm(functional.gelu(self.transform(hidden), approximate="tanh"))
        return functional.linear(hidden, word_embeddings, self.bias)


class Bert(nn.Module):
    """The encoder with both heads."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.pooler = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.masked_language_head = MaskedLanguageHead(sizes)
        self.next_sentence_head = nn.Linear(sizes.hidden_size, 2)

    def forward(
        self,
        input_ids: Tensor,
        segments: Tensor,
        positions: Tensor,
        owners: Tensor,
        masked_at: Tensor,
        first_at: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Scores of the masked words (M, V), and of "a random piece follows" (S, 2).

        The first four are (N, T). `owners` says which sequence of its row a token belongs to, 0 for none; tokens see
        their own sequence only, so several in a row do not know of each other. `masked_at` (M,) and `first_at` (S,) say
        where among the N * T tokens the masked words and the first tokens, [CLS], are.
        """
        bias = OTHERS * (owners[:, None, :, None] != owners[:, None, None, :])
        hidden = self.embeddings(input_ids, segments, positions)
        for layer in self.layers:
            hidden = layer(hidden, bias)
        hidden = hidden.flatten(0, 1)
        words = self.masked_language_head(hidden.index_select(0, masked_at), self.embeddings.word.weight)
        return words, self.next_sentence_head(torch.tanh(self.pooler(hidden.index_select(0, first_at))))


@torch.no_grad()
def initialise(model: Bert, sigma: float) -> None:
    """Weights from a normal distribution cut at two sigma, biases 0, layer norms 1 and 0."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif "layer_norm" in name:
            parameter.fill_(1.0)
        else:
            nn.init.trunc_normal_(parameter, std=sigma, a=-2 * sigma, b=2 * sigma)


def pretraining_loss(word_scores: Tensor, words: Tensor, next_scores: Tensor, next_labels: Tensor) -> Tensor:
    """Cross entropy of the masked words, their sum divided by M + 1e-5, plus that of the next sentence: a scalar.

    word_scores (M, V), words (M,), next_scores (S, 2), next_labels (S,).
    """
    masked = functional.cross_entropy(word_scores, words, reduction="sum") / (len(words) + 1e-5)
    return masked + functional.cross_entropy(next_scores, next_labels)
