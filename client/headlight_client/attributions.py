"""Holds gradient measures of a prediction: one number per token, or one per head.

L layers, H heads, T tokens or words.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token


@dataclass(frozen=True, slots=True, eq=False)
class Attributions:
    """What each token or word adds to the log-odds of a label.

    Args:
        model: that answered.
        prediction: for the sentence.
        tokens: T tokens or words.
        values: float64 [T], what each one adds.
        label: whose calibrated log-odds are explained.
        view: the method, with `+word` where the tokens of a word were summed.
        steps: nodes of the integral; None for a method without one.
        value: log-odds of the label for the sentence.
        baseline_value: log-odds of the label for the baseline: the text with padding for its words.
        gap: what the sum misses: `value - baseline_value - values.sum()`.
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

    @property
    def texts(self) -> list[str]:
        """The text of each token."""
        return [token.text for token in self.tokens]


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """How much the log-odds of a label depend on each head.

    Args:
        model: that answered.
        prediction: for the sentence.
        label: whose calibrated log-odds are explained.
        layers: numbers of the L layers.
        heads: numbers of the H heads of each.
        values: float64 [L, H].
    """

    model: ModelName
    prediction: Prediction
    label: str
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    values: NDArray[np.float64]
