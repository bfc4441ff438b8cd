"""From the raw weights of many heads to fewer maps that are easier to read: views.

Legend: L layers, H heads, T tokens, W words (a special token counts as one).

A view is no longer what the network used. What each leaves out, and where it comes from, is told
in docs/concepts/attention.md.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.config import EncoderConfig
from model.words import Words, sum_words

Reduce = Literal["none", "mean", "max", "rollout"]
Level = Literal["token", "word"]
Weights = NDArray[np.float32]

RAW = "raw"


def view_name(reduce: Reduce, level: Level) -> str:
    """The name of a view, as answers give it: `raw`, `mean`, `word` or `rollout+word`, say."""
    parts = [part for part in (reduce, level) if part not in ("none", "token")]
    return "+".join(parts) or RAW


def reduced_shape(reduce: Reduce, layers: int, heads: int) -> tuple[int, int]:
    """How many layers and heads are left of so many; a reduced axis has length 1."""
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
    """Makes the view of raw weights.

    Tokens become words before the largest of several heads is taken, so that no weight exceeds 1,
    and after a rollout, which follows tokens from layer to layer.

    Args:
        attention: raw weights [L, H, T, T] of the chosen layers and heads.
        reduce: `mean` and `max` over the heads of each layer, `rollout` over both, or `none`.
        words: of the same T tokens; None leaves tokens alone.
        residual_share: of the network, for a rollout; see `rollout`.

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
        # Sums of float32 numbers that make 1 may be a little more.
        view = np.minimum(view, np.float32(1))
    return view


def rollout(attention: Weights, *, residual_share: float = EncoderConfig.residual_share) -> Weights:
    """Attention rollout (Abnar and Zuidema 2020): how much of each input token is in each output.

    The heads of a layer are averaged, the residual connection is added as an identity, and the
    layers are multiplied, the first one first.

    Args:
        attention: raw weights [L, H, T, T]; layers in ascending order.
        residual_share: of a layer's output that its residual connection passes on, from 0 to 1;
            0 for a network that has none.

    Returns:
        [T, T]; `[i, j]` is the share of token j of the input in place i after the last layer, and
        rows sum to 1.
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
    """Attention between words: what goes to a word's tokens is summed, what they give averaged.

    So every row still sums to 1 (Clark et al. 2019, "What Does BERT Look At?").

    Args:
        attention: [..., T, T].
        words: of these T tokens.

    Returns:
        [..., W, W].
    """
    to_words = sum_words(attention, words, axis=-1)  # [..., T, W]
    from_words = sum_words(to_words, words, axis=-2)  # [..., W, W]
    sizes = np.array([len(group) for group in words.groups], np.float32)
    joined: Weights = from_words / sizes[:, None]
    return joined
