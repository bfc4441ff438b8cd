"""Computes multi-head attention over queries, keys and values.

Legend: B batch, Q query length, K key length, H heads, D head_dim, V value_head_dim.

Vaswani et al. 2017, "Attention is all you need", section 3.2.
"""

import math
from contextlib import nullcontext
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from model.errors import ConfigurationError
from model.network.masks import check_masked_rows, join_masks, mask_bias

Score = Literal["scaled_dot_product", "additive"]


class AttentionOutput(NamedTuple):
    """The result of attention.

    Args:
        hidden_states: [B, Q, output_size].
        attention_weights: softmax over the keys before dropout, float32 [B, H, Q, K]; None
            unless requested.
    """

    hidden_states: Tensor
    attention_weights: Tensor | None


class AdditiveScore(LazyModuleMixin, nn.Module):
    """The score w . tanh(query + key), with one vector w per head (Bahdanau et al. 2015)."""

    weight: nn.UninitializedParameter

    def __init__(self, *, num_heads: int, head_dim: int | None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.weight = nn.UninitializedParameter()
        if head_dim is not None:
            self._draw(head_dim)

    def initialize_parameters(self, queries: Tensor, keys: Tensor) -> None:
        """Draws the vectors at the first call; torch calls this."""
        del keys
        self._draw(queries.shape[-1])

    def _draw(self, head_dim: int) -> None:
        if isinstance(self.weight, nn.UninitializedParameter):
            self.weight.materialize((self.num_heads, head_dim))  # [H, D]
            nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores every pair of a query [B, H, Q, D] and a key [B, H, K, D]: [B, H, Q, K]."""
        sums = torch.tanh(queries.unsqueeze(3) + keys.unsqueeze(2))  # [B, H, Q, K, D]
        return torch.einsum("bhqkd,hd->bhqk", sums, self.weight)  # [B, H, Q, K]


class MultiHeadAttention(nn.Module):
    """Attention with several heads, each with its own projections.

    Two paths share the parameters. The fused path runs a kernel that never builds the
    [B, H, Q, K] weights. The explicit path computes them with a softmax and can return them. The
    results differ only by rounding. The additive score has only the explicit path.

    Sizes that are not given follow from others: keys are as wide as queries, values are as wide
    as keys, a head has `query_size / num_heads` features, and the result is as wide as the
    queries. If `query_size` is None, the first call infers these sizes from its tensors.

    Args:
        query_size: features of the queries; None takes them from the first call.
        value_head_dim: V, features of one head's values; None means `head_dim`.
        bias: whether the four projections add a bias.
        score: `scaled_dot_product`, or `additive`: w . tanh(query + key) with one vector w per
            head.

    Raises:
        ConfigurationError: `head_dim` is None and `num_heads` does not divide `query_size`, a
            size is below 1, `dropout` is not a share below 1, or the score is unknown. If
            `query_size` is None, the first call checks whether it divides.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        query_size: int | None,
        key_size: int | None = None,
        value_size: int | None = None,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        output_size: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        score: Score = "scaled_dot_product",
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
        if score not in get_args(Score):
            raise ConfigurationError(f"score must be {' or '.join(get_args(Score))}, got {score}")
        if head_dim is None and query_size is not None:
            head_dim = _divide(query_size, num_heads)
        value_head_dim = head_dim if value_head_dim is None else value_head_dim
        key_size = query_size if key_size is None else key_size
        value_size = key_size if value_size is None else value_size
        output_size = query_size if output_size is None else output_size
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_head_dim = value_head_dim
        self.output_size = output_size
        self.dropout = dropout
        self.score = score
        self._joined: tuple[Tensor, Tensor | None] | None = None
        self.query = _linear(query_size, _times(num_heads, head_dim), bias=bias)
        self.key = _linear(key_size, _times(num_heads, head_dim), bias=bias)
        self.value = _linear(value_size, _times(num_heads, value_head_dim), bias=bias)
        self.output = _linear(_times(num_heads, value_head_dim), output_size, bias=bias)
        if score == "additive":
            self.additive = AdditiveScore(num_heads=num_heads, head_dim=head_dim)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attends from each query to all keys that no mask hides.

        Args:
            query: [B, Q, query_size].
            key: [B, K, key_size].
            value: [B, K, value_size].
            key_padding_mask: True where a key is padding, bool [B, K].
            attention_mask: True where a query may not attend to a key, bool [Q, K], [B, Q, K] or
                [B, H, Q, K].
            need_weights: takes the explicit path and returns its weights.

        Returns:
            Hidden states in the type of the projections, and weights in float32 or None.

        Raises:
            ConfigurationError: a tensor or a mask has the wrong shape or type, or the masks leave
                a query no key.
        """
        self._check_shapes(query, key, value)
        shape = key.shape[0], self.num_heads, query.shape[1], key.shape[1]
        masked = join_masks(key_padding_mask, attention_mask, shape)
        if masked is not None:
            check_masked_rows(masked)
        bias = mask_bias(masked, query.dtype)
        return self.attend(query, key, value, bias=bias, need_weights=need_weights)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        bias: Tensor | None,
        need_weights: bool,
        head_mask: Tensor | None = None,
    ) -> AttentionOutput:
        """Attends with masks that are already joined, so that layers share that work.

        `bias` is the output of `mask_bias`. `head_mask`, [H] or [B, H], multiplies each head's
        output before the heads are joined (Michel, Levy and Neubig 2019); None means 1 for all.
        """
        queries, keys, values = self.project(query, key, value)
        if need_weights or self.score == "additive":
            context, weights = self._explicit(queries, keys, values, bias)
        else:
            weights = None
            context = functional.scaled_dot_product_attention(
                queries,
                keys,
                values,
                attn_mask=bias,
                dropout_p=self.dropout if self.training else 0.0,
            )  # [B, H, Q, V]
        if head_mask is not None:
            context = context * head_mask.to(context.dtype)[..., None, None]  # [B, H, Q, V]
        joined = context.transpose(1, 2).flatten(2)  # [B, Q, H * V]
        hidden_states: Tensor = self.output(joined)  # [B, Q, output_size]
        return AttentionOutput(hidden_states, weights if need_weights else None)

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        tensors = {"query": query, "key": key, "value": value}
        projections = {"query": self.query, "key": self.key, "value": self.value}
        for name, tensor in tensors.items():
            if tensor.ndim != 3:
                raise ConfigurationError(
                    f"{name} must have 3 dimensions, [batch, length, features], got "
                    f"{tensor.ndim}: {tuple(tensor.shape)}"
                )
            weight = projections[name].weight
            # A lazy projection has no size before its first call.
            if not is_lazy(weight) and tensor.shape[2] != weight.shape[1]:
                raise ConfigurationError(
                    f"{name} must have {weight.shape[1]} features, got {tensor.shape[2]}"
                )
            if tensor.shape[0] != query.shape[0]:
                raise ConfigurationError(
                    f"{name} must have the batch size of query, {query.shape[0]}, got "
                    f"{tensor.shape[0]}"
                )
        if key.shape[1] != value.shape[1]:
            raise ConfigurationError(
                f"key and value must have the same length, got {key.shape[1]} and {value.shape[1]}"
            )

    def _infer_sizes(self, query_size: int) -> None:
        """Infers the sizes that were not given, at the first call of a lazy module."""
        if self.head_dim is None:
            self.head_dim = _divide(query_size, self.num_heads)
        if self.value_head_dim is None:
            self.value_head_dim = self.head_dim
        if self.output_size is None:
            self.output_size = query_size
        widths = {
            self.query: self.num_heads * self.head_dim,
            self.key: self.num_heads * self.head_dim,
            self.value: self.num_heads * self.value_head_dim,
            self.output: self.output_size,
        }
        for projection, width in widths.items():
            if is_lazy(projection.weight):
                projection.out_features = width

    def join_projections(self) -> None:
        """Joins the weights of queries, keys and values, so that inference needs one product.

        The projections share this memory. The module must have its final device and type.
        """
        parts = (self.query, self.key, self.value)
        weight = torch.cat([part.weight.detach() for part in parts])
        has_bias = self.query.bias is not None
        bias = torch.cat([part.bias.detach() for part in parts]) if has_bias else None
        start = 0
        for part in parts:
            end = start + len(part.weight)
            part.weight = nn.Parameter(weight[start:end], requires_grad=False)
            if bias is not None:
                part.bias = nn.Parameter(bias[start:end], requires_grad=False)
            start = end
        self._joined = weight, bias

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects, and splits into heads: [B, H, Q, D], [B, H, K, D] and [B, H, K, V]."""
        self._infer_sizes(query.shape[-1])
        if self._joined is None or key is not value:
            queries, keys, values = self.query(query), self.key(key), self.value(value)
        else:
            weight, bias = self._joined
            width = self.query.out_features
            if query is key:
                joined = functional.linear(key, weight, bias)  # [B, K, 2 H D + H V]
                queries, joined = joined[..., :width], joined[..., width:]
            else:
                rest = None if bias is None else bias[width:]
                queries, joined = self.query(query), functional.linear(key, weight[width:], rest)
            keys, values = joined[..., :width], joined[..., width:]
        return self._split(queries), self._split(keys), self._split(values)

    def _split(self, projected: Tensor) -> Tensor:
        batch_size, length, width = projected.shape
        shape = batch_size, length, self.num_heads, width // self.num_heads
        return projected.view(shape).transpose(1, 2)  # [B, H, T, D]

    def _explicit(
        self, queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Computes scores, softmax and context in float32, whatever type the projections have."""
        # In bfloat16, a row of weights sums to 1 only within 0.003.
        dtype = values.dtype
        exact = torch.promote_types(dtype, torch.float32)
        device = queries.device.type
        # Some devices do not have autocast.
        casts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False) if casts else nullcontext():
            if self.score == "additive":
                scores = self.additive(queries, keys).to(exact)  # [B, H, Q, K]
            else:
                scores = queries.to(exact) @ keys.to(exact).transpose(-2, -1)  # [B, H, Q, K]
                scores = scores / math.sqrt(queries.shape[-1])
            if bias is not None:
                scores = scores + bias
            weights = scores.softmax(dim=-1)
            dropped = functional.dropout(weights, self.dropout, self.training)
            return (dropped @ values.to(exact)).to(dtype), weights.float()  # [B, H, Q, V]


def _divide(query_size: int, num_heads: int) -> int:
    if query_size % num_heads:
        raise ConfigurationError(
            f"query_size ({query_size}) is not divisible by num_heads ({num_heads}): "
            "choose sizes that divide, or give head_dim"
        )
    return query_size // num_heads


def _times(num_heads: int, head_dim: int | None) -> int | None:
    return None if head_dim is None else num_heads * head_dim


def _linear(in_features: int | None, out_features: int | None, *, bias: bool) -> nn.Linear:
    if in_features is None or out_features is None:
        return nn.LazyLinear(out_features or 0, bias=bias)
    return nn.Linear(in_features, out_features, bias=bias)
