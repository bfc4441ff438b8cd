"""Holds attention weights and gradient measures as numpy arrays, with the names of their axes.

L layers, H heads, T tokens or words, D features of a query, a key or a value.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token, shortened
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd

_TEXT = {"text": "string"}
_TYPES = {"layer": "Int64", "head": "Int64", "query_text": "string", "key_text": "string"}


class HoldsTokens:
    """What all answers about the tokens of one sentence have in common."""

    __slots__ = ()

    tokens: tuple[Token, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each token, as plots and BertViz expect them."""
        return [token.text for token in self.tokens]

    @property
    def _shown(self) -> str:
        return repr(shortened(" ".join(self.texts)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionView(HoldsTokens):
    """What `Attention` and `Thumbnails` both hold."""

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    view: str
    window: int | None = field(default=None, kw_only=True)
    windows: int | None = field(default=None, kw_only=True)

    @property
    def layer_names(self) -> list[int | None]:
        """The layer at each index of the first axis; None if layers were merged."""
        return [None] if "rollout" in self.view else list(self.layers)

    @property
    def head_names(self) -> list[int | None]:
        """The head at each index of the second axis; None if heads were merged."""
        is_joined = any(name in self.view for name in ("mean", "max", "rollout"))
        return [None] if is_joined else list(self.heads)

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
        layers, heads: indices of those used.
        view: `raw` for the softmax as the network used it, else the derived view, such as
            `rollout+word`.
        weights: float32 [L, H, T, T]; `weights[l, h, q, k]` is what token `q` gives to token `k`.
            An axis of merged layers or heads has length 1.
        window, windows: index of the text's window, of how many; None unless `truncation` is
            `window`.
    """

    weights: NDArray[np.float32]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.weights.shape))
        return (
            f"Attention({self.view!r}, {self.prediction.label!r}, weights {shape}, "
            f"tokens {self._shown})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table with a row for each weight, in the order of `weights`.

        Its columns are `layer`, `head`, `query`, `key`, `query_text`, `key_text` and `weight`.
        A layer or head is missing where several were merged. All layers and heads of a long text
        make millions of rows: ask for some of them, or for a view.
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


@dataclass(frozen=True, slots=True)
class Unit:
    """A word, sentence or token that was left out, and what the label has without it.

    The changes are what the whole text has more. Offsets are in Unicode code points.
    """

    start: int
    end: int
    text: str
    probability: float
    log_odds: float
    probability_change: float
    log_odds_change: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attributions(HoldsTokens):
    """What each token, word or sentence adds to the log-odds of a label.

    Args:
        tokens: T tokens, words or sentences.
        values: float64 [T], what each one adds.
        label: whose calibrated log-odds are explained.
        view: the method, with `+word` or `+sentence`.
        steps: nodes of the integral; None for a method without one.
        value: log-odds of the label for the sentence.
        baseline_value: log-odds of the label for the baseline: the text with padding for its words,
            or with `leave_out` an empty text.
        gap: what the sum misses: `value - baseline_value - values.sum()`.
        units: with `leave_out`, what was left out, in order; a sentence for its words or tokens if
            the service had time for the sentence only.
        partial: whether units are missing that the service had no time for.
    """

    model: ModelName
    prediction: Prediction
    tokens: tuple[Token, ...]
    values: NDArray[np.float64]
    label: str
    view: str
    steps: int | None
    value: float
    baseline_value: float
    gap: float
    units: tuple[Unit, ...] = ()
    partial: bool = False

    def __repr__(self) -> str:
        return (
            f"Attributions({self.view!r}, of {self.label!r}, gap {self.gap:.4f}, "
            f"{len(self.tokens)} tokens {self._shown})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table of the tokens: `text`, `start`, `end`, `special`, `value`.

        With `leave_out` it is a table of `units`.
        """
        if self.units:
            return frame(list(self.units), _TEXT)
        table = frame(list(self.tokens), _TEXT)[["text", "start", "end", "special"]]
        return table.assign(value=self.values)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Importance:
    """How much the log-odds of a label depend on each head.

    Args:
        label: whose calibrated log-odds are explained.
        layers, heads: indices of the L layers, and of the H heads in each.
        values: float64 [L, H].
    """

    model: ModelName
    prediction: Prediction
    label: str
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    values: NDArray[np.float64]

    def __repr__(self) -> str:
        layer, head = np.unravel_index(self.values.argmax(), self.values.shape)
        return (
            f"Importance(of {self.label!r}, {len(self.layers)} layers x {len(self.heads)} heads, "
            f"largest {self.values[layer, head]:.4f} in layer {self.layers[layer]}, "
            f"head {self.heads[head]})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table with a row for each head: `layer`, `head`, `value`."""
        layer, head = (index.ravel() for index in np.indices(self.values.shape))
        columns = {"layer": np.array(self.layers)[layer], "head": np.array(self.heads)[head]}
        return frame({**columns, "value": self.values.ravel()}, {})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionSteps(HoldsTokens):
    """How one head makes the weights that one token gives.

    `scores` is `keys @ query_vector * scale`, `weights` is the softmax of `scores`, and `result` is
    `weights @ values`.

    Args:
        query: index of the token that gives the weights.
        scale: 1 / √D.
        query_vector: float32 [D], the query of that token.
        keys, values: float32 [T, D], the key and the value of each token.
        scores, weights: float32 [T].
        result: float32 [D].
        window, windows: index of the text's window, of how many; None unless `truncation` is
            `window`.
    """

    model: ModelName
    tokens: tuple[Token, ...]
    layer: int
    head: int
    query: int
    scale: float
    query_vector: NDArray[np.float32]
    keys: NDArray[np.float32]
    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    values: NDArray[np.float32]
    result: NDArray[np.float32]
    window: int | None = None
    windows: int | None = None

    def __repr__(self) -> str:
        return (
            f"AttentionSteps(layer {self.layer}, head {self.head}, "
            f"of {shortened(self.tokens[self.query].text)!r}, {len(self.tokens)} tokens of "
            f"{len(self.query_vector)} features)"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a pandas table of the tokens: `text`, `start`, `end`, `score`, `weight`."""
        table = frame(list(self.tokens), _TEXT)[["text", "start", "end"]]
        return table.assign(score=self.scores, weight=self.weights)
