"""Defines the parts of a transformer encoder in the BERT layout: embeddings and layers.

Legend: B batch, T tokens, Q query length, D hidden size, H heads, F intermediate size.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.network.attention import AttentionOutput, MultiHeadAttention
from model.network.config import EncoderConfig

_GELU_APPROXIMATE: dict[str, Literal["none", "tanh"]] = {
    "gelu": "none",
    "gelu_new": "tanh",
    "gelu_pytorch_tanh": "tanh",
}


class Embeddings(nn.Module):
    """The normalised sum of the embeddings of tokens, positions and the first segment."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, segments = config.hidden_size, config.type_vocab_size
        self.tokens = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.positions = nn.Embedding(config.max_position_embeddings, size)
        self.types = nn.Embedding(segments, size) if segments else None
        self.position_offset = config.position_offset
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, *, tokens: Tensor | None = None) -> Tensor:
        """Embeds int64 [B, T] to float32 [B, T, D]; `tokens` replace the embeddings of the ids."""
        first = self.position_offset
        positions = self.positions.weight[first : first + input_ids.shape[1]]  # [T, D]
        if self.types is not None:
            positions = positions + self.types.weight[0]
        tokens = self.embed_tokens(input_ids) if tokens is None else tokens  # [B, T, D]
        embedded: Tensor = self.dropout(self.norm(tokens + positions))  # [B, T, D]
        return embedded

    def embed_tokens(self, input_ids: Tensor) -> Tensor:
        """Embeds tokens without their positions: int64 [B, T] to float32 [B, T, D]."""
        # A network that serves may keep the table in 16 bits.
        embedded: Tensor = self.tokens(input_ids).float()
        return embedded


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part, each followed by a residual connection and a norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.layer_norm_eps
        self.attention = MultiHeadAttention(
            num_heads=config.num_attention_heads,
            query_size=size,
            dropout=config.attention_probs_dropout_prob,
        )
        self.attention_norm = nn.LayerNorm(size, eps=eps)
        self.intermediate = nn.Linear(size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, size)
        self.output_norm = nn.LayerNorm(size, eps=eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.activation = config.hidden_act
        self.gelu_by_erf = False

    def forward(
        self,
        hidden_states: Tensor,
        *,
        bias: Tensor | None,
        need_weights: bool,
        head_mask: Tensor | None = None,
        cls_only: bool = False,
    ) -> AttentionOutput:
        """Runs one layer over float32 [B, T, D]; returns float32 [B, Q, D], and weights or None.

        Arguments and weights are those of `MultiHeadAttention.attend`. With `cls_only` it computes
        only the first token, which attends to all: Q is 1, else T.
        """
        dtype = self.intermediate.weight.dtype
        inputs = hidden_states.to(dtype)
        queries = inputs  # [B, Q, D]
        if cls_only:
            hidden_states, queries = hidden_states[:, :1], inputs[:, :1]
        attended = self.attention.attend(
            queries, inputs, inputs, bias=bias, need_weights=need_weights, head_mask=head_mask
        )
        hidden_states = self.attention_norm(hidden_states + self.dropout(attended.hidden_states))
        inner = self._activate(self.intermediate(hidden_states.to(dtype)))  # [B, Q, F]
        hidden_states = self.output_norm(hidden_states + self.dropout(self.output(inner)))
        return AttentionOutput(hidden_states, attended.attention_weights)

    def _activate(self, inner: Tensor) -> Tensor:
        approximate = _GELU_APPROXIMATE.get(self.activation)
        if approximate == "none" and self.gelu_by_erf:
            # x Phi(x), where Phi is the distribution function of the standard normal distribution.
            return inner * torch.erf(inner * math.sqrt(0.5)).mul_(0.5).add_(0.5)
        if approximate is not None:
            return functional.gelu(inner, approximate=approximate)
        return functional.relu(inner) if self.activation == "relu" else functional.silu(inner)
