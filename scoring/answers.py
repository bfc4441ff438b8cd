"""Holds what the model says of the texts of a unit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers for N texts, of C classes.

    Args:
        label_ids: the most probable class, int32 [N].
        probabilities: calibrated, float64 [N, C]; a row sums to 1.
        token_counts: tokens that the model read, int32 [N].
        truncated: whether a part of the text was cut off, bool [N].
        refused: the reasons for texts that have no answer, by their places; what the arrays hold
            there means nothing.
    """

    label_ids: NDArray[np.int32]
    probabilities: NDArray[np.float64]
    token_counts: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    refused: Mapping[int, str]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The probability of each label [N]."""
        rows = np.arange(len(self.label_ids))
        scores: NDArray[np.float64] = self.probabilities[rows, self.label_ids]
        return scores

    def select(self, places: NDArray[np.intp]) -> "Answers":
        """Returns the answers at some places, none of them refused."""
        return Answers(
            self.label_ids[places],
            self.probabilities[places],
            self.token_counts[places],
            self.truncated[places],
            {},
        )
