"""Fits TF-IDF with logistic regression, the baseline that a network on few rows has to beat.

Legend: N rows, V terms.
"""

import time
from collections import Counter

from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import Pipeline, make_pipeline

from training.compare.comparison import Outcome, Run
from training.data.dataset import Dataset
from training.errors import RecipeError
from training.fit.rows import EvalResult
from training.measure.tfidf import TITLE, make_vectorizer

_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FOLDS = 5


def run_baseline(training: Dataset, validation: Dataset) -> Outcome:
    """Fits the baseline. It is deterministic, so one run is enough.

    Features are words and pairs of words, weighted by the logarithm of their counts. Five-fold
    cross-validation on the training rows alone chooses the strength of the regularisation.

    Args:
        training: rows to learn from.
        validation: rows to measure on.
    """
    started = time.perf_counter()
    regression = LogisticRegressionCV(
        Cs=_STRENGTHS,
        cv=_FOLDS,
        l1_ratios=(0.0,),
        scoring="neg_log_loss",
        max_iter=1000,
        use_legacy_attributes=False,
    )
    pipeline = make_pipeline(make_vectorizer(), regression)
    pipeline.fit(training.texts, training.label_ids)
    seconds = time.perf_counter() - started
    run = Run(
        seed=0,
        seconds=round(seconds, 3),
        training=_evaluate(pipeline, training),
        validation=_evaluate(pipeline, validation),
        history=(),
    )
    parameters = int(regression.coef_.size + regression.intercept_.size)
    return Outcome(name="tf-idf", title=TITLE, parameters=parameters, runs=(run,))


def check_baseline(training: Dataset) -> None:
    """Raises `RecipeError` if a class has fewer rows than the cross-validation has parts."""
    rows = Counter(training.label_ids)
    label, found = min(
        ((label, rows[number]) for number, label in enumerate(training.labels)),
        key=lambda pair: pair[1],
    )
    if found < _FOLDS:
        raise RecipeError(
            f"{found} rows to learn from are {label}, and the baseline tf-idf needs {_FOLDS} of "
            "each class: add rows, or choose --variants without it"
        )


def _evaluate(pipeline: Pipeline, dataset: Dataset) -> EvalResult:
    probabilities = pipeline.predict_proba(dataset.texts)  # [N, C]
    classes = range(len(dataset.labels))
    return EvalResult(
        loss=float(log_loss(dataset.label_ids, probabilities, labels=list(classes))),
        accuracy=float(accuracy_score(dataset.label_ids, probabilities.argmax(axis=1))),
    )
