"""Trains checkpoints on labelled text and measures them."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.errors import FitWarning
    from training.estimator import Evaluation, TextClassifier, evaluate

__all__ = ["Evaluation", "FitWarning", "TextClassifier", "evaluate"]

# Read when torch loads its threads: one that waits sleeps, and leaves its core to the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # 1,024 take 200 MB more


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as Python asks for
    """Imports a name when it is asked for: commands need no scikit-learn to start."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("training.estimator"), name)
