"""Holds attention weights as numpy arrays, with the names of their rows and columns.

L layers, H heads, T tokens or words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token, shortened
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {"layer": "Int64", "head": "Int64", "query_text": "string", "key_text": "string"}


class _Named:
    """What all views of attention name: their tokens, layers and heads."""

    __slots__ = ()

    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str

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

    def _table(
        self, places: Iterable[NDArray[np.integer[Any]]], weights: NDArray[np.float32]
    ) -> "pd.DataFrame":
        """Returns a table of N weights.

        Args:
            places: indices of layer, head, query and key, each [N].
            weights: [N].
        """
        layer, head, query, key = places
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
class Attention(_Named):
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
        window: number of the window of the text that they are of; None unless `truncation` is
            `window`.
        windows: that the text has; None likewise.
    """

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str
    weights: NDArray[np.float32]
    window: int | None = None
    windows: int | None = None

    def __repr__(self) -> str:
        """What it holds, without the weights."""
        shape = " x ".join(str(size) for size in self.weights.shape)
        return (
            f"Attention({self.view!r}, {self.prediction.label!r}, weights {shape}, "
            f"tokens {shortened(' '.join(self.texts))!r})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each weight, in the order of `weights`.

        Its columns are `layer`, `head`, `query`, `key`, `query_text`, `key_text` and `weight`, as
        in the service's form `csv`. A layer or head is missing where several were merged. All
        layers and heads of a long text make millions of rows: ask for some of them, or for a view.

        Raises:
            ImportError: pandas is not installed.
        """
        places = (index.ravel() for index in np.indices(self.weights.shape))
        return self._table(places, self.weights.ravel())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Thumbnails(_Named):
    """The maps of one sentence reduced to few rows and columns, and what each token looks at most.

    Args:
        model: that answered.
        prediction: from the same forward pass.
        tokens: T tokens or words, special ones included.
        layers: numbers of the layers used.
        heads: numbers of the heads used.
        view: as of `Attention`; it ends in `thumbnail`.
        maps: float32 [L, H, S, S]; a cell is the largest weight of the rows and columns that it
            stands for: token `i` belongs to row `i * S // T`. S is T for a short text.
            Maps without special tokens count the others alone.
        strongest: int [L, H, T]; the token to which each token gives its largest weight.
        strongest_weights: float32 [L, H, T], these weights.
        window: as of `Attention`.
        windows: as of `Attention`.
    """

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str
    maps: NDArray[np.float32]
    strongest: NDArray[np.integer[Any]]
    strongest_weights: NDArray[np.float32]
    window: int | None = None
    windows: int | None = None

    def __repr__(self) -> str:
        """What it holds, without the weights."""
        shape = " x ".join(str(size) for size in self.maps.shape)
        return (
            f"Thumbnails({self.view!r}, {self.prediction.label!r}, maps {shape}, "
            f"{len(self.tokens)} tokens {shortened(' '.join(self.texts))!r})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table of what each token looks at most, in each layer and head.

        Its columns are those of `Attention.to_dataframe`, with a row for each query.

        Raises:
            ImportError: pandas is not installed.
        """
        layer, head, query = (index.ravel() for index in np.indices(self.strongest.shape))
        places = (layer, head, query, self.strongest.ravel())
        return self._table(places, self.strongest_weights.ravel())
