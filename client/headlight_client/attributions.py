"""Holds gradient measures of a prediction: one number per token, or one per head.

L layers, H heads, T tokens or words.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Prediction, Token, shortened
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        """What it holds, without the numbers of the tokens."""
        return (
            f"Attributions({self.view!r}, of {self.label!r}, gap {self.gap:.4f}, "
            f"{len(self.tokens)} tokens {shortened(' '.join(self.texts))!r})"
        )

    @property
    def texts(self) -> list[str]:
        """The text of each token."""
        return [token.text for token in self.tokens]

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each token: `text`, `start`, `end`, `special`, `value`.

        Raises:
            ImportError: pandas is not installed.
        """
        columns = {
            name: [getattr(token, name) for token in self.tokens]
            for name in ("text", "start", "end", "special")
        }
        return frame({**columns, "value": self.values}, {"text": "string"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        """What it holds, and the head with the largest value."""
        layer, head = np.unravel_index(self.values.argmax(), self.values.shape)
        return (
            f"Importance(of {self.label!r}, {len(self.layers)} layers x {len(self.heads)} heads, "
            f"largest {self.values[layer, head]:.4f} in layer {self.layers[layer]}, "
            f"head {self.heads[head]})"
        )

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each head: `layer`, `head`, `value`.

        Raises:
            ImportError: pandas is not installed.
        """
        layer, head = (index.ravel() for index in np.indices(self.values.shape))
        columns = {"layer": np.array(self.layers)[layer], "head": np.array(self.heads)[head]}
        return frame({**columns, "value": self.values.ravel()})
