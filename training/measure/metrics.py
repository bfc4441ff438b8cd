"""Computes metrics of the probabilities of N texts in C classes, and fits their temperature."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, f1_score

NUM_BINS = 15
_LEAST_PROBABILITY = 1e-15  # keeps the log-loss of a right class with probability 0 finite


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of a set of texts."""

    rows: int
    accuracy: float
    interval: tuple[float, float]
    macro_f1: float  # mean over the classes that occur
    f1: tuple[float | None, ...]  # None for a class that is neither true nor predicted
    log_loss: float  # mean over the texts, in nats
    ece: float  # over 15 bins of equal width
    confusion: tuple[tuple[int, ...], ...]  # by true class (row) and predicted class


def measure(probabilities: NDArray[np.floating], label_ids: NDArray[np.integer]) -> Figures:
    """Compares probabilities [N, C], N at least 1, with the true classes [N]."""
    rows, num_labels = probabilities.shape
    classes = range(num_labels)
    predicted = probabilities.argmax(axis=1)  # [N]
    correct = predicted == label_ids  # [N]
    f1 = f1_score(label_ids, predicted, labels=classes, average=None, zero_division=np.nan)  # [C]
    likelihoods = probabilities[np.arange(rows), label_ids].astype(np.float64)  # [N]
    return Figures(
        rows=rows,
        accuracy=float(correct.mean()),
        interval=wilson_interval(int(correct.sum()), rows),
        macro_f1=float(np.nanmean(f1)),
        f1=tuple(None if np.isnan(score) else float(score) for score in f1),
        log_loss=float(-np.log(likelihoods.clip(min=_LEAST_PROBABILITY)).mean()),
        ece=expected_calibration_error(probabilities.max(axis=1), correct),
        confusion=tuple(
            tuple(row) for row in confusion_matrix(label_ids, predicted, labels=classes).tolist()
        ),
    )


def choose_among(
    probabilities: NDArray[np.floating],
    classes: Sequence[int] | slice = slice(None),
    *,
    power: float = 1.0,
) -> NDArray[np.float64]:
    """Computes the probabilities, to a power, of a choice among K classes (or all), [N, K]."""
    # By logarithms, so that a row whose classes are all nearly 0 still sums to 1.
    among = probabilities[:, classes].clip(min=np.finfo(np.float64).tiny)
    chosen: NDArray[np.float64] = softmax(power * np.log(among), axis=1)
    return chosen


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Computes the 95 % score interval of a share (Wilson 1927) of at least one trial."""
    interval = binomtest(successes, trials).proportion_ci(0.95, "wilson")
    return float(interval.low), float(interval.high)


def expected_calibration_error(
    scores: NDArray[np.floating], correct: NDArray[np.bool_], *, num_bins: int = NUM_BINS
) -> float:
    """Computes the mean gap between N scores and the share that is right (Guo et al. 2017)."""
    bins = (np.ceil(scores * num_bins).astype(np.int64) - 1).clip(0, num_bins - 1)  # [N]
    # For each bin: its share of all texts, times the gap between mean score and accuracy.
    gaps = np.bincount(bins, weights=scores - correct, minlength=num_bins)  # [num_bins]
    return float(np.abs(gaps).sum() / len(scores))


LOWEST, HIGHEST = 0.05, 20.0


def fit_temperature(logits: NDArray[np.floating], label_ids: NDArray[np.integer]) -> float:
    """Finds the temperature between 0.05 and 20 with the least log-loss of logits [N, C].

    It is 1 if none is best: the true class has the highest logit in every row, or all are equal.
    """
    logits = np.asarray(logits, dtype=np.float64)
    rows = np.arange(len(logits))
    if (logits[rows, label_ids] == logits.max(axis=1)).all():
        return 1.0

    def log_loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / math.exp(log_temperature), axis=1)  # [N, C]
        return float(-log_probabilities[rows, label_ids].mean())

    # Log-loss is convex in 1 / temperature, so it has one minimum over the logarithm as well.
    result = minimize_scalar(
        log_loss,
        bounds=(math.log(LOWEST), math.log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(result.x)
