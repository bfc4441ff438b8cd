"""Counts the answers to N measured texts in C classes, for the records of a checkpoint."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.records import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline, Threshold, Thresholds
from training.measure.inference import Probabilities

_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)


def count_baseline(
    answers: Probabilities, *, labels: Sequence[str], sets: Sequence[str]
) -> Baseline:
    """Counts the texts of a measurement."""

    def count(bins: NDArray[np.integer], bounds: Sequence[float]) -> tuple[int, ...]:
        return tuple(np.bincount(bins, minlength=len(bounds) + 1).tolist())

    values, token_counts = answers.values, answers.token_counts
    chosen = values.argmax(axis=1)  # [N]
    # The index of the first bound that is not below it, as `bisect_left` finds it.
    bins = np.searchsorted(SCORE_BOUNDS, values.max(axis=1).astype(np.float64))  # [N]
    return Baseline(
        sets=tuple(sets),
        rows=len(values),
        score_bounds=SCORE_BOUNDS,
        scores={
            label: count(bins[chosen == index], SCORE_BOUNDS) for index, label in enumerate(labels)
        },
        length_bounds=LENGTH_BOUNDS,
        lengths=count(np.searchsorted(LENGTH_BOUNDS, token_counts), LENGTH_BOUNDS),
        truncated=answers.truncated,
        tokens=int(token_counts.sum()),
        unknown_tokens=answers.unknown_tokens,
    )


def count_thresholds(
    probabilities: NDArray[np.floating],
    label_ids: NDArray[np.integer],
    *,
    labels: Sequence[str],
    sets: Sequence[str],
) -> Thresholds:
    """Counts answers [N, C] whose score is a threshold or more, for thresholds from 0.5 to 0.99.

    With more than two classes a score may be below 0.5, so there the first threshold is 0.
    """

    def by_label(classes: NDArray[np.integer]) -> dict[str, int]:
        counts = np.bincount(classes, minlength=len(labels)).tolist()  # [C]
        return dict(zip(labels, counts, strict=True))

    scores, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)  # [N]
    thresholds = _THRESHOLDS if len(labels) == 2 else (0.0, *_THRESHOLDS)
    left = tuple(
        Threshold(
            threshold=threshold,
            answers=by_label(predicted[scores >= threshold]),
            right=by_label(predicted[(scores >= threshold) & (predicted == label_ids)]),
        )
        for threshold in thresholds
    )
    return Thresholds(
        sets=tuple(sets), rows=len(probabilities), texts=by_label(label_ids), by_threshold=left
    )
