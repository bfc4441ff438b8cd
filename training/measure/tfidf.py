"""Fits TF-IDF with logistic regression: the baseline that a network on few rows has to beat."""

import re

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

from training.data.dataset import Dataset

TITLE = "TF-IDF with logistic regression"
# Up to here the baseline takes half a minute and a gigabyte at most.
MOST_ROWS, MOST_CHARACTERS = 50_000, 20_000_000
# Chosen once, by the files of several kinds; a search would take 35 times as long.
_STRENGTH = 10.0
# Includes words of one letter: "I", and the "t" of "don't".
_WORD = re.compile(r"(?u)\b\w+\b")


def make_vectorizer() -> TfidfVectorizer:
    """Makes the features: words and pairs of words, weighted by the logarithm of their counts."""
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORD.pattern)


def is_cheap(training: Dataset) -> bool:
    """Tells whether the baseline takes seconds beside the minutes of a network."""
    characters = sum(map(len, training.texts))
    return len(training) <= MOST_ROWS and characters <= MOST_CHARACTERS


def baseline_accuracy(training: Dataset, validation: Dataset) -> float | None:
    """Fits the baseline, which draws nothing by chance, and measures it.

    Args:
        training: rows to learn from, of every class.
        validation: rows to measure on.

    Returns:
        The share of right rows; None if no text has a word in it.
    """
    pipeline = make_pipeline(make_vectorizer(), LogisticRegression(C=_STRENGTH, max_iter=1000))
    try:
        pipeline.fit(training.texts, training.label_ids)
    except ValueError:  # scikit-learn's word for an empty vocabulary
        return None
    return float(accuracy_score(validation.label_ids, pipeline.predict(validation.texts)))
