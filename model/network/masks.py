"""Builds and joins attention masks; True always means masked.

Legend: B batch, Q query length, K key length, H heads.
"""

import math

import torch
from torch import Tensor

from model.errors import ConfigurationError


def padding_mask(lengths: Tensor, *, max_length: int | None = None) -> Tensor:
    """Masks the padding after texts of known lengths; bool [B, K], True where there is padding.

    Args:
        lengths: valid positions of each row, integers [B], each at least 1.
        max_length: K; None means the longest of the lengths.

    Raises:
        ConfigurationError: the lengths are no integers from 1 to `max_length`, or there are none.
    """
    is_whole = lengths.dtype in {torch.int32, torch.int64}
    if lengths.ndim != 1 or not is_whole or not len(lengths):
        raise ConfigurationError(
            f"lengths must be integers of shape [B], B at least 1, got {lengths.dtype} of shape "
            f"{tuple(lengths.shape)}"
        )
    longest = int(lengths.max())
    if max_length is None:
        max_length = longest
    shortest = int(lengths.min())
    if shortest < 1 or longest > max_length:
        raise ConfigurationError(
            f"lengths must be from 1 to {max_length}, got {shortest} to {longest}"
        )
    positions = torch.arange(max_length, device=lengths.device)  # [K]
    return positions >= lengths.unsqueeze(1)  # [B, K]


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | None = None
) -> Tensor:
    """Masks later positions: query q sees keys 0 to q; bool [Q, K], True where a key is later.

    Args:
        query_length: Q.
        key_length: K, at least Q; the queries are the last positions. None means Q.

    Raises:
        ConfigurationError: there are fewer keys than queries.
    """
    key_length = query_length if key_length is None else key_length
    if not 1 <= query_length <= key_length:
        raise ConfigurationError(
            f"a causal mask needs from 1 to {key_length} queries for {key_length} keys, "
            f"got {query_length}"
        )
    later = torch.ones(query_length, key_length, dtype=torch.bool, device=device)
    return later.triu(diagonal=key_length - query_length + 1)  # [Q, K]


def join_masks(
    key_padding_mask: Tensor | None,
    attention_mask: Tensor | None,
    shape: tuple[int, int, int, int],
) -> Tensor | None:
    """Joins the masks of `MultiHeadAttention.forward` for [B, H, Q, K]; reads no values."""
    batch_size, num_heads, query_length, key_length = shape
    masked = None
    if key_padding_mask is not None:
        _check(key_padding_mask, "key_padding_mask", [(batch_size, key_length)])
        masked = key_padding_mask[:, None, None, :]  # [B, 1, 1, K]
    if attention_mask is not None:
        pairs = (query_length, key_length)
        shapes = [pairs, (batch_size, *pairs), (batch_size, num_heads, *pairs)]
        _check(attention_mask, "attention_mask", shapes)
        if attention_mask.ndim == 3:
            attention_mask = attention_mask.unsqueeze(1)  # [B, 1, Q, K]
        masked = attention_mask if masked is None else masked | attention_mask
    return masked


def check_masked_rows(masked: Tensor) -> None:
    """Refuses a mask that leaves a query no key; reads the mask on the host."""
    blind = int(masked.all(dim=-1).sum())
    if blind:
        raise ConfigurationError(
            f"{blind} rows of {masked[..., 0].numel()} are masked whole: each query needs at "
            "least 1 key that it may attend to, got 0"
        )


def mask_bias(masked: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Turns a mask into what is added to scores: minus infinity where it is True, else 0."""
    if masked is None:
        return None
    zeros = torch.zeros(masked.shape, dtype=dtype, device=masked.device)
    return zeros.masked_fill_(masked, -math.inf)


def _check(mask: Tensor, name: str, shapes: list[tuple[int, ...]]) -> None:
    if mask.dtype != torch.bool:
        raise ConfigurationError(f"{name} must be bool (True = masked), got {mask.dtype}")
    if tuple(mask.shape) not in shapes:
        wanted = " or ".join(str(shape) for shape in shapes)
        raise ConfigurationError(f"{name} must have shape {wanted}, got {tuple(mask.shape)}")
