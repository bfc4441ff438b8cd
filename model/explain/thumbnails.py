"""Reduces maps of attention to thumbnails, layer by layer, so that those of a long text stay small.

Legend: L layers, H heads, T tokens, W tokens or words, S side of a thumbnail.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.explain.views import Reduce, Weights, reduce_weights
from model.network.config import EncoderConfig
from model.tokenization.tokenizer import Token
from model.tokenization.words import Words

LEAST_SIDE, MOST_SIDE = 8, 128


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """What a thumbnail shows.

    Args:
        side: rows and columns at most, S.
        special: whether special tokens have rows and columns.
        reduce: how `model.explain.views.reduce_weights` joins heads and layers.
        words: of the text; None keeps its tokens.
    """

    side: int
    special: bool = True
    reduce: Reduce = "none"
    words: Words | None = None


@dataclass(frozen=True, slots=True)
class Strongest:
    """The largest weight of each query.

    Args:
        keys: that have it, int32 [L or 1, H or 1, W].
        weights: float32 of the same shape.
    """

    keys: NDArray[np.int32]
    weights: Weights


def make_thumbnails(
    layers: Sequence[Weights],
    tokens: Sequence[Token],
    thumbnail: Thumbnail,
    *,
    residual_share: float = EncoderConfig.residual_share,
) -> tuple[Weights, Strongest]:
    """Makes the thumbnails of a text, and finds the key that each query attends to most.

    Args:
        layers: raw weights [H, T, T] of each of L layers, in ascending order.
        tokens: the T tokens.
        residual_share: see `model.explain.views.rollout`.

    Returns:
        Float32 [L or 1, H or 1, S, S]; S is at most the side. The strongest keys are of all
        tokens or words, special ones too.
    """
    reduce, words = thumbnail.reduce, thumbnail.words
    # A rollout needs all layers, and any other view one at a time.
    groups = [layers] if reduce == "rollout" else [[layer] for layer in layers]
    names = tokens if words is None else words.tokens
    shown = [at for at, token in enumerate(names) if not token.special]
    is_cut = not thumbnail.special and 0 < len(shown) < len(names)
    maps, keys, largest = [], [], []
    for group in groups:
        weights = np.stack(group) if len(group) > 1 else group[0][None]
        view = reduce_weights(weights, reduce=reduce, words=words, residual_share=residual_share)[0]
        keys.append(view.argmax(axis=-1).astype(np.int32))
        largest.append(view.max(axis=-1))
        if is_cut:
            view = view[:, shown][:, :, shown]
        # A copy: a view of it would keep the whole pass.
        maps.append(shrink(view, thumbnail.side).copy())
    return np.stack(maps), Strongest(np.stack(keys), np.stack(largest))


def shrink(weights: Weights, side: int) -> Weights:
    """Reduces maps to a side; each cell is the largest weight of those that it stands for.

    Args:
        weights: float32 [..., W, W].
        side: S. The cell of row i is floor(i S / W).

    Returns:
        [..., S, S], or the maps themselves where W is not larger than S.
    """
    length = weights.shape[-1]
    if length <= side:
        return weights
    starts = -(-np.arange(side) * length // side)
    rows = np.maximum.reduceat(weights, starts, axis=-2)
    shrunk: Weights = np.maximum.reduceat(rows, starts, axis=-1)
    return shrunk


def thumbnail_side(tokens: Sequence[Token], side: int, *, special: bool = True) -> int:
    """Returns the side of the thumbnail of a text with these tokens or words."""
    shown = sum(not token.special for token in tokens)
    return min(side, len(tokens) if special or shown == 0 else shown)
