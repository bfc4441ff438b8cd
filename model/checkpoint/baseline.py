"""Counts what texts look like and how they are answered, for a comparison with texts in use.

Legend: N texts, C classes.
"""

import itertools
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from model.checkpoint.record_types import Count, Digest, Record, Rows, SetName, Share

# The upper bounds of bins; the last bin has all that is above. Scores gather near 1.
SCORE_BOUNDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99)
LENGTH_BOUNDS = (8, 16, 32, 64, 128, 256, 512)
# Each bin is a series of each replica.
_MOST_BOUNDS = 32


class Baseline(Record):
    """What the texts that a checkpoint was measured on look like, and how it answers them.

    A bin holds what is above the bound before it, up to its own; the last bin has no upper bound.

    Args:
        weights_sha256: SHA-256 of the weights file that answered; None before it is written.
        rows: N.
        scores: for each class, how many texts it is the answer to, by the bin of its probability.
        lengths: how many texts there are, by the bin of the token count.
        truncated: texts of which a part was cut off.
        tokens: tokens that were read, special ones included.
        unknown_tokens: tokens that stand for what the vocabulary lacks.
    """

    weights_sha256: Digest | None = None
    sets: tuple[SetName, ...] = Field(min_length=1)
    rows: Rows
    score_bounds: tuple[Share, ...] = Field(min_length=1, max_length=_MOST_BOUNDS)
    scores: dict[str, tuple[Count, ...]]
    length_bounds: tuple[PositiveInt, ...] = Field(min_length=1, max_length=_MOST_BOUNDS)
    lengths: tuple[Count, ...]
    truncated: Count
    tokens: Count
    unknown_tokens: Count

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        for name, bounds in (
            ("score_bounds", self.score_bounds),
            ("length_bounds", self.length_bounds),
        ):
            if any(low >= high for low, high in itertools.pairwise(bounds)):
                raise ValueError(f"{name} must ascend")
        for label, counts in self.scores.items():
            _check_bins(f"scores of {label}", counts, len(self.score_bounds))
        _check_bins("lengths", self.lengths, len(self.length_bounds))
        answered = sum(map(sum, self.scores.values()))
        for name, total in (("scores", answered), ("lengths", sum(self.lengths))):
            if total != self.rows:
                raise ValueError(f"{name} count {total} texts, and rows is {self.rows}")
        for name, part, whole in (
            ("truncated", self.truncated, self.rows),
            ("unknown_tokens", self.unknown_tokens, self.tokens),
        ):
            if part > whole:
                raise ValueError(f"{name} is {part}, must be at most {whole}")
        return self


def _check_bins(name: str, counts: Sequence[int], bounds: int) -> None:
    if len(counts) != bounds + 1:
        raise ValueError(f"{name} have {len(counts)} bins, must have {bounds + 1}, one per bound")


def count_baseline(
    probabilities: NDArray[np.floating],
    token_counts: NDArray[np.integer],
    *,
    labels: Sequence[str],
    sets: Sequence[str],
    truncated: int,
    unknown_tokens: int,
) -> Baseline:
    """Counts the texts of a measurement: probabilities are [N, C], token counts [N]."""
    answers = probabilities.argmax(axis=1)  # [N]
    # The index of the first bound that is not below it, as `bisect_left` finds it.
    bins = np.searchsorted(SCORE_BOUNDS, probabilities.max(axis=1).astype(np.float64))  # [N]
    lengths = np.searchsorted(LENGTH_BOUNDS, token_counts)  # [N]
    return Baseline(
        sets=tuple(sets),
        rows=len(probabilities),
        score_bounds=SCORE_BOUNDS,
        scores={
            label: _count(bins[answers == index], SCORE_BOUNDS)
            for index, label in enumerate(labels)
        },
        length_bounds=LENGTH_BOUNDS,
        lengths=_count(lengths, LENGTH_BOUNDS),
        truncated=truncated,
        tokens=int(token_counts.sum()),
        unknown_tokens=unknown_tokens,
    )


def _count(bins: NDArray[np.integer], bounds: Sequence[float]) -> tuple[int, ...]:
    return tuple(np.bincount(bins, minlength=len(bounds) + 1).tolist())
