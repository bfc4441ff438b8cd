"""Fits the temperature that calibrates probabilities.

Guo et al. 2017, "On calibration of modern neural networks": logits are divided by the temperature
before the softmax. That changes the confidence of a model, never the class it prefers.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

LOWEST, HIGHEST = 0.05, 20.0


def fit_temperature(logits: NDArray[np.floating], label_ids: NDArray[np.integer]) -> float:
    """Finds the temperature between 0.05 and 20 with the least log-loss.

    Args:
        logits: unnormalised scores of the classes [N, C].
        label_ids: the true classes [N].

    Returns:
        The temperature. It is 1 if no temperature is best: the true class has the highest logit
        in every row, so that lower is always better, or all logits are equal.

    Raises:
        ValueError: there are no rows, the shapes do not fit, or a logit is not finite.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim != 2 or label_ids.shape != logits.shape[:1] or not label_ids.size:
        raise ValueError(
            "logits must have shape [N, C] and label_ids [N] with N at least 1, "
            f"got {list(logits.shape)} and {list(label_ids.shape)}"
        )
    if not np.isfinite(logits).all():
        raise ValueError("logits must be finite numbers")
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
