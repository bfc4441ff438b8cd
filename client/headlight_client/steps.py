"""Holds the steps from the queries and keys of one head to one row of weights.

T tokens, D features of a query, a key or a value.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headlight_client.answers import ModelName, Token, shortened
from headlight_client.tables import frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionSteps:
    """How one head makes the weights that one token gives.

    `scores` is `keys @ query_vector * scale`, `weights` is the softmax of `scores`, and `result` is
    `weights @ values`.

    Args:
        model: that answered.
        tokens: T tokens.
        layer: number of the layer.
        head: number of the head.
        query: number of the token whose row it is.
        scale: 1 / √D.
        query_vector: float32 [D], the query of that token.
        keys: float32 [T, D], the key of each token.
        scores: float32 [T].
        weights: float32 [T].
        values: float32 [T, D], the value of each token.
        result: float32 [D].
        window: number of the window of the text; None unless `truncation` is `window`.
        windows: that the text has; None likewise.
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
        """What it holds, without the numbers."""
        return (
            f"AttentionSteps(layer {self.layer}, head {self.head}, "
            f"of {shortened(self.tokens[self.query].text)!r}, {len(self.tokens)} tokens of "
            f"{len(self.query_vector)} features)"
        )

    @property
    def texts(self) -> list[str]:
        """The text of each token."""
        return [token.text for token in self.tokens]

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with a row for each token: `text`, `start`, `end`, `score`, `weight`.

        Raises:
            ImportError: pandas is not installed.
        """
        columns = {
            name: [getattr(token, name) for token in self.tokens]
            for name in ("text", "start", "end")
        }
        numbers = {"score": self.scores, "weight": self.weights}
        return frame({**columns, **numbers}, {"text": "string"})
