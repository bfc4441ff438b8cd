"""The pass of an encoder over packed weights, as one function that TorchScript compiles.

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

from model.backends.quantized import activate, project

Run = Callable[..., tuple[Tensor, list[Tensor]]]


@cache
def compiled() -> Run:
    """The pass as TorchScript; of what torch has, it alone needs no compiler of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        run: Run = torch.jit.script(_forward)
    return run


def _weigh(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Weights of scaled dot-product attention (Vaswani et al. 2017).

    Args:
        queries: float32 [B, H, T, D / H].
        keys: the same.
        mask: added to the scores of each key, float32 [B, 1, 1, T].

    Returns:
        float32 [B, H, T, T].
    """
    batch_size, num_heads, length, head_dim = queries.shape
    scores = torch.baddbmm(
        torch.zeros([1, 1, 1]),
        queries.reshape(-1, length, head_dim),
        keys.reshape(-1, length, head_dim).transpose(1, 2),
        beta=0.0,
        alpha=1.0 / math.sqrt(head_dim),
    )
    scores = scores.view(batch_size, num_heads, length, length)
    if mask is not None:
        scores.add_(mask)
    return scores.softmax(dim=-1)


def _attend(heads: Tensor, mask: Tensor | None, in_products: bool) -> tuple[Tensor, Tensor]:
    """Attention of all tokens.

    Args:
        heads: queries, keys and values, [3, B, H, T, D / H].
        mask: added to the scores of each key, float32 [B, 1, 1, T].
        in_products: by two products, which leave the weights; else by the fused kernel. Both
            compute in float32: which one it is depends on the longest text of the batch, and
            must not change what is said of the others.

    Returns:
        Context, float32 [B, H, T, D / H]; weights, float32 [B, H, T, T], or an empty tensor.
    """
    if not in_products:
        exact = heads.float()
        fused = functional.scaled_dot_product_attention(exact[0], exact[1], exact[2], mask)
        return fused, torch.empty(0)
    _, batch_size, num_heads, length, head_dim = heads.shape
    three = torch.empty(heads.shape).copy_(heads)
    weights = _weigh(three[0], three[1], mask)
    values = three[2].view(-1, length, head_dim)
    context = torch.bmm(weights.view(-1, length, length), values)
    return context.view(batch_size, num_heads, length, head_dim), weights


def _weigh_for_first(
    states: Tensor, mask: Tensor | None, first: list[Tensor], num_heads: int
) -> Tensor:
    """Weights of the first token alone, without a key of any.

    A score is a query times a key, q (W h + b): the query through the keys' weights, times the
    states as they are, and a number that all keys share, which the softmax forgets. So what
    depends on the number of tokens is a product of H D numbers a token, not of D squared.

    Args:
        states: that the tokens attend to, float32 [B, T, D].
        mask: added to the scores of each key, float32 [B, 1, 1, T].
        first: as `PackedEncoder` makes it.
        num_heads: H.

    Returns:
        float32 [B, H, T].
    """
    queries = functional.linear(states[:, 0], first[0], first[1])  # [B, D]
    split = queries.view(len(states), num_heads, -1).transpose(0, 1)  # [H, B, D / H]
    turned = torch.bmm(split, first[2]).transpose(0, 1)  # [B, H, D]
    scores = torch.bmm(turned, states.transpose(1, 2))  # [B, H, T]
    if mask is not None:
        scores.add_(mask[:, 0])
    return scores.softmax(dim=-1)


def _attend_first(weights: Tensor, states: Tensor, first: list[Tensor]) -> Tensor:
    """Attention of the first token alone, without a value of any.

    The mean of the values is the values' projection of the mean of the states.

    Args:
        weights: of the first token, float32 [B, H, T].
        states: that it attends to, float32 [B, T, D].
        first: as `PackedEncoder` makes it.

    Returns:
        Context [B, D].
    """
    means = torch.bmm(weights, states)  # [B, H, D]
    context = torch.bmm(means.transpose(0, 1), first[3])  # [H, B, D / H]
    return context.transpose(0, 1).reshape(len(states), -1) + first[4]


def _project(states: Tensor, weight: Tensor, terms: Tensor, activation: str, form: str) -> Tensor:
    if terms.dim() > 1:
        return activate(project(states, weight, terms), activation, form)
    out: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, terms, activation, [], form)
    return out


def _at_places(rows: Tensor, places: Tensor, batch_size: int, length: int) -> Tensor:
    """From the tokens that are there, [N, F], to all of a batch, [B, T, F]."""
    if len(places) > 0:
        return rows.index_select(0, places).view(batch_size, length, -1)
    return rows[: batch_size * length].view(batch_size, length, -1)


def _split(joined: Tensor, num_heads: int, size: int) -> Tensor:
    """What belongs to a head together: from [B, T, P D] of P projections to [P, B, H, T, D / H]."""
    batch_size, length, _ = joined.shape
    heads = joined.view(batch_size, length, -1, num_heads, size // num_heads)
    return heads.permute(2, 0, 3, 1, 4)


def _rest_of_layer(
    hidden: Tensor,
    context: Tensor,
    projections: list[Tensor],
    terms: list[Tensor],
    norms: list[Tensor],
    eps: float,
    activation: str,
    form: str,
) -> Tensor:
    """What follows attention: from the states and the context, [N, D], to the next states.

    There may be fewer rows of context than of states, which are filled up.
    """
    size, kind = hidden.shape[1], terms[0].dtype
    missing = len(hidden) - len(context)
    if missing > 0:
        context = torch.cat([context, context[:1].expand(missing, size)])
    attended = _project(context.to(kind), projections[1], terms[1], "none", "")
    hidden = functional.layer_norm(hidden + attended, [size], norms[0], norms[1], eps)
    inner = _project(hidden.to(kind), projections[2], terms[2], activation, form)
    outer = _project(inner, projections[3], terms[3], "none", "")
    return functional.layer_norm(hidden + outer, [size], norms[2], norms[3], eps)


def _forward(
    input_ids: Tensor,
    mask: Tensor,
    tokens: Tensor,
    places: Tensor,
    firsts: Tensor,
    embeddings: list[Tensor],
    projections: list[Tensor],
    terms: list[Tensor],
    norms: list[Tensor],
    first: list[Tensor],
    head: list[Tensor],
    num_heads: int,
    eps: float,
    activation: str,
    form: str,
    in_products: bool,
    need_weights: bool,
) -> tuple[Tensor, list[Tensor]]:
    batch_size, length = input_ids.shape
    size = embeddings[0].shape[1]
    kind = terms[0].dtype
    is_padded = len(places) > 0
    padding = mask if is_padded else None
    summed = functional.embedding(input_ids, embeddings[0]) + embeddings[1][:length]  # [B, T, D]
    hidden = summed.view(-1, size).index_select(0, tokens)  # [N, D]
    # The residual stream is float32, as in model.encoder.
    hidden = functional.layer_norm(hidden, [size], embeddings[2], embeddings[3], eps)
    all_weights: list[Tensor] = []
    last = len(projections) - 4
    for at in range(0, last, 4):
        joined = _project(hidden.to(kind), projections[at], terms[at], "none", "")  # [N, 3 D]
        joined = _at_places(joined, places, batch_size, length)
        context, weights = _attend(_split(joined, num_heads, size), padding, in_products)
        if need_weights:
            all_weights.append(weights)
        context = context.transpose(1, 2).reshape(-1, size)  # [B * T, D]
        hidden = _rest_of_layer(
            hidden,
            context.index_select(0, tokens) if is_padded else context,
            projections[at : at + 4],
            terms[at : at + 4],
            norms[at : at + 4],
            eps,
            activation,
            form,
        )
    states = _at_places(hidden, places, batch_size, length)
    if need_weights:
        # Queries and keys alone.
        joined = _project(hidden.to(kind), projections[last], terms[last], "none", "")  # [N, 2 D]
        joined = _at_places(joined, places, batch_size, length)
        heads = _split(joined, num_heads, size)
        two = torch.empty(heads.shape).copy_(heads)
        all_weights.append(_weigh(two[0], two[1], padding))
        weights_of_first = all_weights[-1][:, :, 0]
    else:
        weights_of_first = _weigh_for_first(states, padding, first, num_heads)
    hidden = _rest_of_layer(
        hidden.index_select(0, firsts),  # [B, D], and so is all that follows
        _attend_first(weights_of_first, states, first),
        projections[last:],
        terms[last:],
        norms[last:],
        eps,
        activation,
        form,
    )
    pooled = torch.tanh(functional.linear(hidden, head[0], head[1]))
    return functional.linear(pooled, head[2], head[3]), all_weights
