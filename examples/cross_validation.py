"""Measures a network on several divisions of the same rows, by scikit-learn's `cross_val_score`.

    python -m examples.cross_validation reviews.csv

One division says little of a few hundred rows. Each fold is measured by a network that has not seen
it. The file has the columns `text` and `label`.
"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_score

from training import TextClassifier


def read(path: str | Path) -> tuple[list[str], list[str]]:
    """Reads texts and their labels."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def accuracies(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    folds: int = 3,
    **options: Any,  # noqa: ANN401
) -> NDArray[np.float64]:
    """Trains a network for each fold, and returns its accuracy on the fold."""
    classifier = TextClassifier(**options)
    division = StratifiedKFold(folds, shuffle=True, random_state=0)
    scores: NDArray[np.float64] = cross_val_score(classifier, texts, labels, cv=division)
    return scores


if __name__ == "__main__":
    found = accuracies(*read(sys.argv[1]))
    sys.stdout.write(f"accuracy {found.mean():.2%} ± {found.std(ddof=1):.2%} of {found}\n")
