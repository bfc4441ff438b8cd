"""Trains checkpoints on labelled text and measures them."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.estimator import TextClassifier

__all__ = ["TextClassifier"]

# Read when torch loads its threads: one that waits sleeps, and leaves its core to the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as Python asks for
    """Imports the estimator when it is asked for: commands need no scikit-learn to start."""
    if name != "TextClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from training.estimator import TextClassifier

    return TextClassifier
