"""Tries values of a recipe on labelled rows, by scikit-learn's `GridSearchCV`, and keeps the best.

    python -m examples.grid_search reviews.csv checkpoints/best

The figures of the best are optimistic, since the same rows chose it: keep rows back, and measure it
on them once with `headlight-train evaluate`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.model_selection import GridSearchCV

from examples.cross_validation import read
from training import TextClassifier

VALUES: Mapping[str, ArrayLike] = {"learning_rate": [3e-5, 1e-4, 3e-4], "epochs": [3, 6]}


def search(
    texts: Sequence[str],
    labels: Sequence[str],
    values: Mapping[str, ArrayLike] = VALUES,
    **options: Any,  # noqa: ANN401
) -> GridSearchCV:
    """Trains a network for each combination and fold, and the best one on all rows."""
    found = GridSearchCV(TextClassifier(**options), dict(values), scoring="neg_log_loss", cv=3)
    return found.fit(texts, labels)


if __name__ == "__main__":
    best = search(*read(sys.argv[1]))
    results = best.cv_results_
    for given, score in zip(results["params"], results["mean_test_score"], strict=True):
        sys.stdout.write(f"log-loss {-score:.4f}: {given}\n")
    best.best_estimator_.save(sys.argv[2])
