"""Multi-head attention: from queries, keys and values to hidden states and, if asked, weights.

Legend: B batch, Q query length, K key length, H heads, D head_dim, V value_head_dim.

Vaswani et al. 2017, "Attention is all you need", section 3.2.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.errors import ConfigurationError


class AttentionOutput(NamedTuple):
    """What attention returns.

    Args:
        hidden_states: [B, Q, output_size].
        attention_weights: float32 softmax over the keys, before dropout [B, H, Q, K]; None
            unless asked for.
    """

    hidden_states: Tensor
    attention_weights: Tensor | None


class MultiHeadAttention(nn.Module):
    """Attention by several heads at once, each with projections of its own.

    Two paths share the weights: a fused kernel that never builds the [B, H, Q, K] weights, and an
    explicit softmax that returns them. Their results differ by rounding alone.

    Args:
        num_heads: H.
        query_size: features of the queries.
        key_size: features of the keys; as the queries if None.
        value_size: features of the values; as the keys if None.
        head_dim: D, features of one head's queries and keys; `query_size / num_heads` if None.
        value_head_dim: V, features of one head's values; as `head_dim` if None.
        output_size: features of the result; as `query_size` if None.
        bias: whether the four projections add a bias.
        dropout: share of the weights dropped in training.

    Raises:
        ConfigurationError: `head_dim` is None and `num_heads` does not divide `query_size`, a
            size is below 1, or `dropout` is not a share below 1.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        query_size: int,
        key_size: int | None = None,
        value_size: int | None = None,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        output_size: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = {
            "num_heads": num_heads,
            "query_size": query_size,
            "key_size": key_size,
            "value_size": value_size,
            "head_dim": head_dim,
            "value_head_dim": value_head_dim,
            "output_size": output_size,
        }
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {size}")
        if not 0.0 <= dropout < 1.0:
            raise ConfigurationError(f"dropout must be at least 0 and below 1, got {dropout}")
        if head_dim is None:
            if query_size % num_heads:
                raise ConfigurationError(
                    f"query_size ({query_size}) is not divisible by num_heads ({num_heads}): "
                    "choose sizes that divide, or give head_dim"
                )
            head_dim = query_size // num_heads
        key_size = query_size if key_size is None else key_size
        value_size = key_size if value_size is None else value_size
        value_head_dim = head_dim if value_head_dim is None else value_head_dim
        output_size = query_size if output_size is None else output_size
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_head_dim = value_head_dim
        self.dropout = dropout
        self.query = nn.Linear(query_size, num_heads * head_dim, bias=bias)
        self.key = nn.Linear(key_size, num_heads * head_dim, bias=bias)
        self.value = nn.Linear(value_size, num_heads * value_head_dim, bias=bias)
        self.output = nn.Linear(num_heads * value_head_dim, output_size, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attends from each query to all keys that are not padding.

        Args:
            query: [B, Q, query_size].
            key: [B, K, key_size].
            value: [B, K, value_size].
            key_padding_mask: True where a key is padding, bool [B, K]. Each row needs a key
                that is not.
            need_weights: takes the explicit path and returns its weights.

        Returns:
            Hidden states in the type of the projections, and weights in float32 or None.

        Raises:
            ConfigurationError: the mask has another shape or type.
        """
        keep = _keep(key_padding_mask, batch_size=key.shape[0], key_length=key.shape[1])
        queries = self._split(self.query(query), self.head_dim)  # [B, H, Q, D]
        keys = self._split(self.key(key), self.head_dim)  # [B, H, K, D]
        values = self._split(self.value(value), self.value_head_dim)  # [B, H, K, V]
        if need_weights:
            context, weights = self._explicit(queries, keys, values, keep)
        else:
            weights = None
            context = functional.scaled_dot_product_attention(
                queries,
                keys,
                values,
                attn_mask=keep,
                dropout_p=self.dropout if self.training else 0.0,
            )  # [B, H, Q, V]
        joined = context.transpose(1, 2).flatten(2)  # [B, Q, H * V]
        hidden_states: Tensor = self.output(joined)  # [B, Q, output_size]
        return AttentionOutput(hidden_states, weights)

    def _split(self, projected: Tensor, head_dim: int) -> Tensor:
        batch_size, length, _ = projected.shape
        separate = projected.view(batch_size, length, self.num_heads, head_dim)  # [B, T, H, D]
        return separate.transpose(1, 2)  # [B, H, T, D]

    def _explicit(
        self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        scores = queries @ keys.transpose(-2, -1)  # [B, H, Q, K]
        # In float32 whatever the weights are in: a bfloat16 row would sum to 1 only within 0.003.
        scores = scores.float() / math.sqrt(self.head_dim)
        if keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        weights = scores.softmax(dim=-1)
        dropped = functional.dropout(weights, self.dropout, self.training)
        return dropped.to(values.dtype) @ values, weights  # [B, H, Q, V]


def _keep(key_padding_mask: Tensor | None, *, batch_size: int, key_length: int) -> Tensor | None:
    """The mask as torch's kernels want it: True where a key takes part."""
    if key_padding_mask is None:
        return None
    if key_padding_mask.dtype != torch.bool:
        raise ConfigurationError(
            f"key_padding_mask must be bool (True = padding), got {key_padding_mask.dtype}"
        )
    if key_padding_mask.shape != (batch_size, key_length):
        raise ConfigurationError(
            f"key_padding_mask must have shape ({batch_size}, {key_length}), "
            f"got {tuple(key_padding_mask.shape)}"
        )
    return ~key_padding_mask[:, None, None, :]  # [B, 1, 1, K]
