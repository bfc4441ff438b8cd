"""Makes the view of an explanation that a request asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model import Explanation, Prediction
from model.explain.views import Level, reduce_weights, view_name
from model.types import Reduce, Strongest, Token, Words


@dataclass(frozen=True, slots=True)
class View:
    """Attention as it is answered: raw, or with heads, layers or tokens joined.

    Args:
        name: `raw` for what the network used, else what was joined.
        tokens: W tokens or words, the names of rows and columns.
        attention: float32 [L or 1, H or 1, W, W]; a joined axis has length 1. Thumbnails are
            [L or 1, H or 1, S, S].
        window: index of the window of the text.
        windows: window count of the text; None if it was not read in windows.
        strongest: what each query attends to most; None if these are no thumbnails.
    """

    name: str
    prediction: Prediction
    tokens: Sequence[Token]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    attention: NDArray[np.float32]
    window: int = 0
    windows: int | None = None
    strongest: Strongest | None = None

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

    `words` are those of the text; None keeps its tokens.
    """
    level: Level = "token" if words is None else "word"
    tokens = explanation.encoding.tokens if words is None else words.tokens
    assert tokens is not None  # noqa: S101 - the text was encoded with them
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
