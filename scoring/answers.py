"""Holds the model's answers to the texts of a unit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.types import SentenceResult


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers for N texts, of C classes.

    Args:
        label_ids: the most probable class, int32 [N].
        probabilities: calibrated, float64 [N, C]; a row sums to 1.
        token_counts: tokens that the model read, int32 [N].
        truncated: whether a part of the text was cut off, bool [N].
        windows: how many windows it was read in, int32 [N].
        sentences: the sentences of each text [N]; empty if they are not scored.
        refused: why texts have no answer, by their indices; the arrays mean nothing there.
    """

    label_ids: NDArray[np.int32]
    probabilities: NDArray[np.float64]
    token_counts: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    windows: NDArray[np.int32]
    sentences: Sequence[Sequence[SentenceResult]]
    refused: Mapping[int, str]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The probability of each label [N]."""
        rows = np.arange(len(self.label_ids))
        scores: NDArray[np.float64] = self.probabilities[rows, self.label_ids]
        return scores

    @property
    def tokens(self) -> int:
        """Tokens that the model read of all texts, and of their sentences."""
        of_sentences = (each.prediction.token_count for text in self.sentences for each in text)
        return int(self.token_counts.sum(dtype=np.int64)) + sum(of_sentences)

    def select(self, indices: NDArray[np.intp]) -> "Answers":
        """Returns the answers at some indices, none of them refused."""
        return Answers(
            self.label_ids[indices],
            self.probabilities[indices],
            self.token_counts[indices],
            self.truncated[indices],
            self.windows[indices],
            [self.sentences[index] for index in indices],
            {},
        )
