"""Computes metrics of probabilities: accuracy, F1, log-loss, calibration error, confusion.

Legend: N texts, C classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

NUM_BINS = 15
_Z_95 = 1.959963984540054  # 95 % of a normal distribution lie within this many deviations
_LEAST_PROBABILITY = 1e-15  # keeps the log-loss of a right class with probability 0 finite


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of a set of texts.

    Args:
        rows: N.
        accuracy: share of texts whose most probable class is right.
        interval: its 95 % Wilson interval.
        macro_f1: mean of the F1 scores of the classes that occur.
        f1: score of each class; None for a class that is neither true nor predicted anywhere.
        log_loss: mean negative log-likelihood of the true class, in nats.
        ece: expected calibration error over 15 bins of equal width.
        confusion: number of texts by true class (row) and predicted class (column).
    """

    rows: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float
    f1: tuple[float | None, ...]
    log_loss: float
    ece: float
    confusion: tuple[tuple[int, ...], ...]


def measure(probabilities: NDArray[np.floating], label_ids: NDArray[np.integer]) -> Figures:
    """Compares predictions with the true classes.

    Args:
        probabilities: of every class, each row summing to 1 [N, C].
        label_ids: the true classes [N].

    Raises:
        ValueError: there are no rows, the shapes do not fit, a probability is not between 0 and
            1, or a class is not between 0 and C - 1.
    """
    _check(probabilities, label_ids)
    rows, num_labels = probabilities.shape
    predicted = probabilities.argmax(axis=1)  # [N]
    correct = predicted == label_ids  # [N]
    confusion = np.zeros((num_labels, num_labels), dtype=np.int64)  # [C, C]
    np.add.at(confusion, (label_ids, predicted), 1)
    f1 = _f1(confusion)
    likelihoods = probabilities[np.arange(rows), label_ids].astype(np.float64)  # [N]
    return Figures(
        rows=rows,
        accuracy=float(correct.mean()),
        interval=wilson_interval(int(correct.sum()), rows),
        macro_f1=float(np.mean([score for score in f1 if score is not None])),
        f1=f1,
        log_loss=float(-np.log(likelihoods.clip(min=_LEAST_PROBABILITY)).mean()),
        ece=expected_calibration_error(probabilities.max(axis=1), correct),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def uncalibrated(probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Computes the probabilities that a model would give without its temperature.

    Args:
        probabilities: calibrated, each row summing to 1 [N, C].
        temperature: that its logits were divided by.

    Returns:
        [N, C].
    """
    powers: NDArray[np.float64] = softmax(
        temperature * np.log(probabilities.clip(min=np.finfo(np.float64).tiny)), axis=1
    )
    return powers


def choose_among(
    probabilities: NDArray[np.floating], classes: Sequence[int]
) -> NDArray[np.float64]:
    """Computes the probabilities of a choice among some of the classes.

    Args:
        probabilities: of every class, each row summing to 1 [N, C].
        classes: the classes to choose among, each from 0 to C - 1 [K].

    Returns:
        Their probabilities in this order, each row summing to 1 [N, K].
    """
    # By their logarithms, so that a row whose classes are all nearly 0 still sums to 1.
    among = probabilities[:, classes].clip(min=np.finfo(np.float64).tiny)
    chosen: NDArray[np.float64] = softmax(np.log(among), axis=1)
    return chosen


def _check(probabilities: NDArray[np.floating], label_ids: NDArray[np.integer]) -> None:
    if probabilities.ndim != 2 or label_ids.shape != probabilities.shape[:1]:
        raise ValueError(
            "probabilities must have shape [N, C] and label_ids [N], "
            f"got {list(probabilities.shape)} and {list(label_ids.shape)}"
        )
    if not label_ids.size:
        raise ValueError("nothing can be measured on 0 rows")
    if not ((probabilities >= 0.0) & (probabilities <= 1.0)).all():
        raise ValueError("probabilities must be between 0 and 1")
    if label_ids.min() < 0 or label_ids.max() >= probabilities.shape[1]:
        raise ValueError(
            f"label_ids must be between 0 and {probabilities.shape[1] - 1}, "
            f"got {label_ids.min()} to {label_ids.max()}"
        )


def _f1(confusion: NDArray[np.int64]) -> tuple[float | None, ...]:
    occurrences = confusion.sum(axis=0) + confusion.sum(axis=1)  # [C]
    return tuple(
        2 * int(hits) / int(total) if total else None
        for hits, total in zip(confusion.diagonal(), occurrences, strict=True)
    )


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Computes the 95 % score interval of a share (Wilson 1927).

    Args:
        successes: at most `trials`.
        trials: at least 1.
    """
    share = successes / trials
    spread = _Z_95**2 / trials
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # Without or with only successes a bound is exactly 0 or 1; rounding would miss it.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return low, high


def expected_calibration_error(
    scores: NDArray[np.floating], correct: NDArray[np.bool_], *, num_bins: int = NUM_BINS
) -> float:
    """Computes the mean gap between scores and the share of right answers (Guo et al. 2017).

    Args:
        scores: probability of the predicted class of each text [N].
        correct: whether that class is right [N].
        num_bins: bins of equal width between 0 and 1, open below and closed above.
    """
    bins = (np.ceil(scores * num_bins).astype(np.int64) - 1).clip(0, num_bins - 1)  # [N]
    # For each bin: its share of all texts, times the gap between mean score and accuracy.
    gaps = np.bincount(bins, weights=scores - correct, minlength=num_bins)  # [num_bins]
    return float(np.abs(gaps).sum() / len(scores))
