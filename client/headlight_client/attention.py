"""Holds attention weights as numpy arrays, with the names of their rows and columns.

L layers, H heads, T tokens or words.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The weights of one sentence, or a view of them, with the prediction of the same pass.

    Args:
        model: that answered.
        prediction: from the same forward pass.
        tokens: T tokens or words: the names of rows and columns.
        layers: numbers of the layers used.
        heads: numbers of the heads used.
        view: `raw` for the softmax as the network used it, else the derived view, such as
            `rollout+word`.
        weights: float32 [L, H, T, T]; `weights[l, h, q, k]` is what token `q` gives to token `k`.
            An axis of merged layers or heads has length 1.
    """

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str
    weights: NDArray[np.float32]

    @property
    def texts(self) -> list[str]:
        """The text of each token, as plots and BertViz expect them."""
        return [token.text for token in self.tokens]

    @property
    def layer_names(self) -> list[int | None]:
        """The layer at each index of the first axis; None if layers were merged."""
        return [None] if "rollout" in self._parts else list(self.layers)

    @property
    def head_names(self) -> list[int | None]:
        """The head at each index of the second axis; None if heads were merged."""
        return [None] if self._parts & {"mean", "max", "rollout"} else list(self.heads)

    @property
    def _parts(self) -> set[str]:
        return set(self.view.split("+"))
