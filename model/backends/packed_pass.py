"""Computes a pass of an encoder over packed weights in one function that TorchScript compiles.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads,
C classes.
"""

import math
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

Run = Callable[..., tuple[Tensor, list[Tensor]]]


@cache
def compiled() -> Run:
    """Compiles the pass with TorchScript, the only way in torch that needs no C++ compiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        run: Run = torch.jit.script(_forward)
    return run


def _attention_weights(queries: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """Computes attention weights, float32 [B, H, T, T]; adds a bias [B, 1, 1, T] to the scores."""
    batch_size, num_heads, length, head_dim = queries.shape
    scores = torch.baddbmm(
        torch.zeros([1, 1, 1]),
        queries.reshape(-1, length, head_dim),
        keys.reshape(-1, length, head_dim).transpose(1, 2),
        beta=0.0,
        alpha=1.0 / math.sqrt(head_dim),
    )
    scores = scores.view(batch_size, num_heads, length, length)
    if bias is not None:
        scores.add_(bias)
    return scores.softmax(dim=-1)


def _attend(heads: Tensor, bias: Tensor | None, explicit: bool) -> tuple[Tensor, Tensor]:
    """Returns context [B, H, T, D / H] and weights, if any, from queries, keys and values."""
    # The longest text of a batch chooses the path. Both are float32: others must not change.
    if not explicit:
        exact = heads.float()
        fused = functional.scaled_dot_product_attention(exact[0], exact[1], exact[2], bias)
        return fused, torch.empty(0)
    _, batch_size, num_heads, length, head_dim = heads.shape
    exact = torch.empty(heads.shape).copy_(heads)
    weights = _attention_weights(exact[0], exact[1], bias)
    values = exact[2].view(-1, length, head_dim)
    context = torch.bmm(weights.view(-1, length, length), values)
    return context.view(batch_size, num_heads, length, head_dim), weights


def _cls_weights(states: Tensor, bias: Tensor | None, cls: list[Tensor], num_heads: int) -> Tensor:
    """Computes the attention weights of the first token, float32 [B, H, T], without keys."""
    # A score is a query times a key, q (W h + b) = (q W) h + q b. The softmax cancels q b, which
    # all keys share. So the cost per token is H D products instead of D squared.
    queries = functional.linear(states[:, 0], cls[0], cls[1])  # [B, D]
    split = queries.view(len(states), num_heads, -1).transpose(0, 1)  # [H, B, D / H]
    turned = torch.bmm(split, cls[2]).transpose(0, 1)  # [B, H, D]
    scores = torch.bmm(turned, states.transpose(1, 2))  # [B, H, T]
    if bias is not None:
        scores.add_(bias[:, 0])
    return scores.softmax(dim=-1)


def _attend_cls(weights: Tensor, states: Tensor, cls: list[Tensor]) -> Tensor:
    """Computes attention of the first token [B, D] without values."""
    # The mean of the projected values is the projection of the mean of the states.
    means = torch.bmm(weights, states)  # [B, H, D]
    context = torch.bmm(means.transpose(0, 1), cls[3])  # [H, B, D / H]
    return context.transpose(0, 1).reshape(len(states), -1) + cls[4]


def _project(
    states: Tensor, weight: Tensor, bias: Tensor, activation: str, approximate: str
) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(
        states, weight, bias, activation, [], approximate
    )
    return out


def _pad(tokens: Tensor, rows: Tensor, batch_size: int, length: int) -> Tensor:
    """Puts the tokens, [N, F], at their positions in the batch, [B, T, F]."""
    if len(rows) > 0:
        return tokens.index_select(0, rows).view(batch_size, length, -1)
    return tokens[: batch_size * length].view(batch_size, length, -1)


def _split(joined: Tensor, num_heads: int, size: int) -> Tensor:
    """Splits P projections [B, T, P D] into heads [P, B, H, T, D / H]."""
    batch_size, length, _ = joined.shape
    heads = joined.view(batch_size, length, -1, num_heads, size // num_heads)
    return heads.permute(2, 0, 3, 1, 4)


def _rest_of_layer(
    hidden: Tensor,
    context: Tensor,
    projections: list[Tensor],
    biases: list[Tensor],
    norms: list[Tensor],
    eps: float,
    activation: str,
    approximate: str,
) -> Tensor:
    """Computes the rest of a layer after attention: from states and context [N, D] to states."""
    size, kind = hidden.shape[1], biases[0].dtype
    missing = len(hidden) - len(context)
    if missing > 0:
        context = torch.cat([context, context[:1].expand(missing, size)])
    attended = _project(context.to(kind), projections[1], biases[1], "none", "")
    hidden = functional.layer_norm(hidden + attended, [size], norms[0], norms[1], eps)
    inner = _project(hidden.to(kind), projections[2], biases[2], activation, approximate)
    outer = _project(inner, projections[3], biases[3], "none", "")
    return functional.layer_norm(hidden + outer, [size], norms[2], norms[3], eps)


def _forward(
    input_ids: Tensor,
    key_bias: Tensor,
    tokens: Tensor,
    rows: Tensor,
    cls_rows: Tensor,
    embeddings: list[Tensor],
    projections: list[Tensor],
    biases: list[Tensor],
    norms: list[Tensor],
    cls: list[Tensor],
    classifier: list[Tensor],
    num_heads: int,
    eps: float,
    activation: str,
    approximate: str,
    pooling: str,
    explicit: bool,
    need_weights: bool,
    head_mask: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    batch_size, length = input_ids.shape
    size = embeddings[0].shape[1]
    kind = biases[0].dtype
    is_padded = len(rows) > 0
    bias = key_bias if is_padded else None
    summed = functional.embedding(input_ids, embeddings[0]) + embeddings[1][:length]  # [B, T, D]
    hidden = summed.view(-1, size).index_select(0, tokens)  # [N, D]
    # The residual stream stays float32, as in `model.network.encoder`.
    hidden = functional.layer_norm(hidden, [size], embeddings[2], embeddings[3], eps)
    all_weights: list[Tensor] = []
    last = len(projections) - 4
    for at in range(0, last, 4):
        joined = _project(hidden.to(kind), projections[at], biases[at], "none", "")  # [N, 3 D]
        joined = _pad(joined, rows, batch_size, length)
        context, weights = _attend(_split(joined, num_heads, size), bias, explicit)
        if need_weights:
            all_weights.append(weights)
        if len(head_mask) > 0:
            context = context * head_mask[at // 4][:, :, None, None]
        context = context.transpose(1, 2).reshape(-1, size)  # [B * T, D]
        hidden = _rest_of_layer(
            hidden,
            context.index_select(0, tokens) if is_padded else context,
            projections[at : at + 4],
            biases[at : at + 4],
            norms[at : at + 4],
            eps,
            activation,
            approximate,
        )
    states = _pad(hidden, rows, batch_size, length)
    if need_weights:
        # Queries and keys, no values.
        joined = _project(hidden.to(kind), projections[last], biases[last], "none", "")  # [N, 2 D]
        joined = _pad(joined, rows, batch_size, length)
        heads = _split(joined, num_heads, size)
        exact = torch.empty(heads.shape).copy_(heads)
        all_weights.append(_attention_weights(exact[0], exact[1], bias))
        cls_weights = all_weights[-1][:, :, 0]
    else:
        cls_weights = _cls_weights(states, bias, cls, num_heads)
    context = _attend_cls(cls_weights, states, cls)  # [B, D]
    if len(head_mask) > 0:
        context = (context.view(batch_size, num_heads, -1) * head_mask[-1][:, :, None]).flatten(1)
    hidden = _rest_of_layer(
        hidden.index_select(0, cls_rows),  # [B, D] from here on
        context,
        projections[last:],
        biases[last:],
        norms[last:],
        eps,
        activation,
        approximate,
    )
    pooled = functional.linear(hidden, classifier[0], classifier[1])
    pooled = torch.relu(pooled) if pooling == "relu" else torch.tanh(pooled)
    return functional.linear(pooled, classifier[2], classifier[3]), all_weights
