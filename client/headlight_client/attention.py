"""Holds attention weights as numpy arrays, with the names of their rows and columns.

L layers, H heads, T tokens or words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token
from headlight_client.tables import HoldsTokens, frame

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {"layer": "Int64", "head": "Int64", "query_text": "string", "key_text": "string"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionView(HoldsTokens):
    """What `Attention` and `Thumbnails` both hold."""

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str

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

    def _table(
        self, indices: Iterable[NDArray[np.integer[Any]]], weights: NDArray[np.float32]
    ) -> "pd.DataFrame":
        """Returns a table of N weights [N], whose layer, head, query and key are each [N]."""
        layer, head, query, key = indices
        texts = np.array(self.texts, dtype=object)
        columns = {
            "layer": np.array(self.layer_names, dtype=object)[layer],
            "head": np.array(self.head_names, dtype=object)[head],
            "query": query,
            "key": key,
            "query_text": texts[query],
            "key_text": texts[key],
            "weight": weights,
        }
        return frame(columns, _TYPES)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attention(AttentionView):
    """The weights of one sentence, or a view of them.

    Args:
        prediction: from the same forward pass.
        tokens: T tokens or words: the names of rows and columns.
        layers: indices of the layers used.
        heads: indices of the heads used.
        view: `raw` for the softmax as the network used it, else the derived view, such as
            `rollout+word`.
        weights: float32 [L, H, T, T]; `weights[l, h, q, k]` is what token `q` gives to token `k`.
            An axis of merged layers or heads has length 1.
        window: index of the text's window; None unless `truncation` is `window`.
        windows: how many windows the text has; None likewise.
    """

    weights: NDArray[np.float32]
    window: int | None = None
    windows: int | None = None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.weights.shape))
        return (
            f"Attention({self.view!r}, {self.prediction.label!r}, weights {shape}, "
            f"tokens {self._shown})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table with a row for each weight, in the order of `weights`.

        Its columns are `layer`, `head`, `query`, `key`, `query_text`, `key_text` and `weight`.
        A layer or head is missing where several were merged. All
        layers and heads of a long text make millions of rows: ask for some of them, or for a view.
        """
        indices = (index.ravel() for index in np.indices(self.weights.shape))
        return self._table(indices, self.weights.ravel())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Thumbnails(AttentionView):
    """The maps of one sentence reduced to few rows and columns, and what each token looks at most.

    The other members are those of `Attention`.

    Args:
        maps: float32 [L, H, S, S]; a cell is the largest weight of the rows and columns that it
            stands for: token `i` belongs to row `i * S // T`. S is T for a short text. Maps
            without special tokens count only the others.
        strongest: int [L, H, T]; the token to which each token gives its largest weight.
        strongest_weights: float32 [L, H, T]; these weights.
    """

    maps: NDArray[np.float32]
    strongest: NDArray[np.integer[Any]]
    strongest_weights: NDArray[np.float32]
    window: int | None = None
    windows: int | None = None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.maps.shape))
        return (
            f"Thumbnails({self.view!r}, {self.prediction.label!r}, maps {shape}, "
            f"{len(self.tokens)} tokens {self._shown})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table of what each token looks at most, in each layer and head.

        Its columns are those of `Attention.to_dataframe`, with a row for each query.
        """
        layer, head, query = (index.ravel() for index in np.indices(self.strongest.shape))
        indices = (layer, head, query, self.strongest.ravel())
        return self._table(indices, self.strongest_weights.ravel())
