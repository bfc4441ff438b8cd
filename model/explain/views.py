"""Reduces raw weights of many heads to fewer maps, called views; the network does not use them.

Legend: L layers, H heads, T tokens, W words (a special token counts as one).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.network.config import EncoderConfig
from model.tokenization.words import Words, sum_words

Reduce = Literal["none", "mean", "max", "rollout"]
Level = Literal["token", "word"]
Weights = NDArray[np.float32]

RAW = "raw"


def view_name(reduce: Reduce, level: Level, *, is_thumbnail: bool = False) -> str:
    """Names a view as answers do: `raw`, `mean`, `word` or `rollout+word`, for example."""
    parts: list[str] = [part for part in (reduce, level) if part not in ("none", "token")]
    if is_thumbnail:
        parts.append("thumbnail")
    return "+".join(parts) or RAW


def reduced_shape(reduce: Reduce, layers: int, heads: int) -> tuple[int, int]:
    """Returns the numbers of layers and heads of a view; a reduced axis has length 1."""
    if reduce == "rollout":
        return 1, 1
    return layers, heads if reduce == "none" else 1


def reduce_weights(
    attention: Weights,
    *,
    reduce: Reduce,
    words: Words | None,
    residual_share: float = EncoderConfig.residual_share,
) -> Weights:
    """Reduces raw weights to a view.

    `max` joins tokens to words first, so that no weight exceeds 1. A rollout joins them last.

    Args:
        attention: raw weights [L, H, T, T] of the chosen layers and heads.
        reduce: `mean` or `max` over the heads of each layer, `rollout` over heads and layers, or
            `none`.
        words: the words of the same T tokens; None keeps tokens.
        residual_share: see `rollout`.

    Returns:
        [L or 1, H or 1, T or W, T or W].
    """
    view = attention
    if reduce == "rollout":
        view = rollout(view, residual_share=residual_share)[None, None]  # [1, 1, T, T]
    if words is not None:
        view = join_words(view, words)  # [.., W, W]
    if reduce == "mean":
        view = view.mean(axis=1, keepdims=True)  # [L, 1, .., ..]
    elif reduce == "max":
        view = view.max(axis=1, keepdims=True)  # [L, 1, .., ..]
    if view is not attention:
        # Float32 sums that should be 1 may be slightly larger.
        view = np.minimum(view, np.float32(1))
    return view


def rollout(attention: Weights, *, residual_share: float = EncoderConfig.residual_share) -> Weights:
    """Computes how much of each input token is in each output (rollout, Abnar and Zuidema 2020).

    Args:
        attention: raw weights [L, H, T, T]; layers in ascending order.
        residual_share: share of a layer's output that comes from its residual connection, from 0
            to 1; 0 for a network without one.

    Returns:
        [T, T]; `[i, j]` is the share of input token j at position i. Rows sum to 1.
    """
    length = attention.shape[-1]
    identity = np.eye(length)
    shares = identity
    for heads in attention:
        mixed = (1 - residual_share) * heads.mean(axis=0, dtype=np.float64)
        mixed += residual_share * identity
        shares = mixed @ shares  # [T, T]
    return shares.astype(np.float32)


def join_words(attention: Weights, words: Words) -> Weights:
    """Joins attention [..., T, T] between tokens to attention [..., W, W] between words.

    Attention to the tokens of a word is summed; attention from them is averaged. So every row
    still sums to 1 (Clark et al. 2019, "What Does BERT Look At?").
    """
    to_words = sum_words(attention, words, axis=-1)  # [..., T, W]
    from_words = sum_words(to_words, words, axis=-2)  # [..., W, W]
    sizes = np.array([len(group) for group in words.groups], np.float32)
    joined: Weights = from_words / sizes[:, None]
    return joined
