"""Holds gradient measures of a prediction, and the steps that make one row of attention.

L layers, H heads, T tokens or words, D features of a query, a key or a value.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token, shortened
from headlight_client.tables import HoldsTokens, frame

if TYPE_CHECKING:
    import pandas as pd


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
            names = [field.name for field in fields(Unit)]
            units = {name: [getattr(unit, name) for unit in self.units] for name in names}
            return frame(units, {"text": "string"})
        columns = self._token_columns("text", "start", "end", "special")
        return frame({**columns, "value": self.values}, {"text": "string"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Importance:
    """How much the log-odds of a label depend on each head.

    Args:
        label: whose calibrated log-odds are explained.
        layers: indices of the L layers.
        heads: indices of the H heads in each layer.
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
        return frame({**columns, "value": self.values.ravel()})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionSteps(HoldsTokens):
    """How one head makes the weights that one token gives.

    `scores` is `keys @ query_vector * scale`, `weights` is the softmax of `scores`, and `result` is
    `weights @ values`.

    Args:
        query: index of the token that gives the weights.
        scale: 1 / √D.
        query_vector: float32 [D], the query of that token.
        keys: float32 [T, D], the key of each token.
        scores: float32 [T].
        weights: float32 [T].
        values: float32 [T, D], the value of each token.
        result: float32 [D].
        window: index of the text's window; None unless `truncation` is `window`.
        windows: how many windows the text has; None likewise.
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
        columns = self._token_columns("text", "start", "end")
        numbers = {"score": self.scores, "weight": self.weights}
        return frame({**columns, **numbers}, {"text": "string"})
