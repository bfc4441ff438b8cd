"""Reduces raw weights of many heads to fewer or smaller maps, called views.

The network does not use them.

Legend: L layers, H heads, T tokens, W words (a special token counts as one), S side of a
downsampled map.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from model.network.config import EncoderConfig
from model.tokenization.words import group_words, sum_words
from model.types import Downsampling, Encoding, Prediction, Reduce, Strongest, Token, Words
from model.validation import one_of

Level = Literal["token", "word"]
Weights = NDArray[np.float32]

RAW = "raw"
LEAST_SIDE, MOST_SIDE = 8, 128  # the least and the most rows of a downsampled map


def view_name(reduce: Reduce, level: Level, *, is_downsampled: bool = False) -> str:
    """Names a view as answers do: `raw`, `mean`, `word` or `rollout+word`, for example."""
    parts: list[str] = [part for part in (reduce, level) if part not in ("none", "token")]
    if is_downsampled:
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
    """Reduces raw weights [L, H, T, T] to a view, [L or 1, H or 1, T or W, T or W].

    Args:
        reduce: `mean` or `max` over the heads of each layer, `rollout` over heads and layers, or
            `none`.
        words: the words of the same T tokens; None keeps tokens. `max` joins tokens to words
            first, so that no weight exceeds 1; a rollout joins them last.
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

    Raw weights [L, H, T, T], layers in ascending order, become [T, T]: `[i, j]` is the share of
    input token j at position i. Rows sum to 1. Of a layer's output, `residual_share` comes from its
    residual connection.
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


def downsample(
    layers: Sequence[Weights],
    tokens: Sequence[Token],
    options: Downsampling,
    *,
    residual_share: float = EncoderConfig.residual_share,
) -> tuple[Weights, Strongest]:
    """Makes the maps of a text smaller, layer by layer, and finds each query's strongest key.

    Raw weights [H, T, T] of each layer become [L or 1, H or 1, S, S]. The strongest keys are of all
    tokens or words, special ones too.
    """
    reduce, words = options.reduce, options.words
    # A rollout needs all layers, and any other view one at a time.
    groups = [layers] if reduce == "rollout" else [[layer] for layer in layers]
    names = tokens if words is None else words.tokens
    shown = [at for at, token in enumerate(names) if not token.special]
    is_cut = not options.special and 0 < len(shown) < len(names)
    maps, keys, largest = [], [], []
    for group in groups:
        weights = np.stack(group) if len(group) > 1 else group[0][None]
        view = reduce_weights(weights, reduce=reduce, words=words, residual_share=residual_share)[0]
        keys.append(view.argmax(axis=-1).astype(np.int32))
        largest.append(view.max(axis=-1))
        if is_cut:
            view = view[:, shown][:, :, shown]
        # A copy: a view of it would keep the whole pass.
        maps.append(shrink(view, options.side).copy())
    return np.stack(maps), Strongest(np.stack(keys), np.stack(largest))


def shrink(weights: Weights, side: int) -> Weights:
    """Reduces maps [..., W, W] to a side S, if W is larger.

    Row i goes to the cell floor(i S / W), which is the largest weight of those in it.
    """
    length = weights.shape[-1]
    if length <= side:
        return weights
    starts = -(-np.arange(side) * length // side)
    rows = np.maximum.reduceat(weights, starts, axis=-2)
    shrunk: Weights = np.maximum.reduceat(rows, starts, axis=-1)
    return shrunk


def downsampled_side(tokens: Sequence[Token], side: int, *, special: bool = True) -> int:
    """Returns the side of the downsampled maps of a text with these tokens or words."""
    shown = sum(not token.special for token in tokens)
    return min(side, len(tokens) if special or shown == 0 else shown)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A prediction with the attention weights of the same forward pass.

    Args:
        encoding: the text as the model read it, with its tokens.
        layers: numbers of the L chosen layers, ascending.
        heads: numbers of the H chosen heads, ascending.
        attention: float32 [L, H, T, T]; the weight that query token q gives to key token k.
            Downsampled, what `model.explain.views.downsample` returns.
        residual_share: share of a layer's output that comes from its residual connection, for
            `model.explain.views.rollout`.
        strongest: what each query attends to most; None for whole maps.
    """

    prediction: Prediction
    encoding: Encoding
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    attention: NDArray[np.float32]
    residual_share: float
    strongest: Strongest | None = None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.attention.shape))
        return f"Explanation({self.prediction.label!r}, attention {shape})"

    def to_svg(self, *, reduce: Reduce = "none", level: Level = "token") -> str:
        """Draws whole maps; raises ValueError for too many, for thumbnails, or without tokens."""
        from model.explain.pictures import MOST_CELLS, draw, svg_picture

        one_of("reduce", reduce, get_args(Reduce))
        one_of("level", level, get_args(Level))
        if self.strongest is not None:
            raise ValueError("thumbnails have no picture: explain the text without downsampling")
        tokens, text = self.encoding.tokens or (), self.encoding.text or ""
        words = group_words(text, tokens) if level == "word" else None
        view = make_view(self, reduce=reduce, words=words)
        if (cells := view.attention.size) > MOST_CELLS:
            raise ValueError(
                f"the picture has {cells:,} cells, of at most {MOST_CELLS:,}: choose layers and "
                "heads, or give reduce='mean' or 'rollout'"
            )
        return svg_picture([draw(view)]).decode()

    def _repr_svg_(self) -> str | None:
        """Draws in a notebook what is not too large."""
        for reduce in get_args(Reduce)[:2]:
            with suppress(ValueError):
                return self.to_svg(reduce=reduce)
        return None


@dataclass(frozen=True, slots=True)
class View:
    """Attention as it is answered: raw, or with heads, layers or tokens joined."""

    name: str  # `raw` for what the network used, else what was joined
    prediction: Prediction
    tokens: Sequence[Token]  # W tokens or words, the names of rows and columns
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    attention: NDArray[np.float32]  # [L or 1, H or 1, W, W]; of thumbnails S instead of W
    window: int = 0  # index of the window of the text
    windows: int | None = None  # of the text; None if it was not read in windows
    strongest: Strongest | None = None  # what each query of a thumbnail attends to most

    @property
    def layer_names(self) -> list[int | None]:
        """The number of the layer at each place of the first axis; None where layers are joined."""
        return [None] if "rollout" in self._parts else list(self.layers)

    @property
    def head_names(self) -> list[int | None]:
        """The number of the head at each place of the second axis; None where heads are joined."""
        return [None] if self._parts & {"mean", "max", "rollout"} else list(self.heads)

    @property
    def _parts(self) -> set[str]:
        return set(self.name.split("+"))


def make_view(explanation: Explanation, *, reduce: Reduce, words: Words | None) -> View:
    """Makes a view of raw weights, or of thumbnails, whose reduction is done.

    Without `words` it keeps the tokens, and raises ValueError if there are none.
    """
    level: Level = "token" if words is None else "word"
    tokens = explanation.encoding.tokens if words is None else words.tokens
    if tokens is None:
        raise ValueError("the encoding has no tokens: encode the text with with_tokens=True")
    strongest, attention = explanation.strongest, explanation.attention
    if strongest is None:
        share = explanation.residual_share
        attention = reduce_weights(attention, reduce=reduce, words=words, residual_share=share)
    return View(
        name=view_name(reduce, level, is_downsampled=strongest is not None),
        prediction=explanation.prediction,
        tokens=tokens,
        layers=explanation.layers,
        heads=explanation.heads,
        attention=attention,
        window=explanation.encoding.window,
        windows=explanation.encoding.windows,
        strongest=strongest,
    )
