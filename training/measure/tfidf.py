"""Fits TF-IDF with logistic regression: the baseline that a network on few rows has to beat."""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import Pipeline, make_pipeline

from training.data.dataset import Dataset

TITLE = "TF-IDF with logistic regression"
# Up to here the baseline takes half a minute and a gigabyte at most.
MOST_ROWS, MOST_CHARACTERS = 50_000, 20_000_000
# Chosen once, by files of several kinds; a search would take 35 times as long.
_STRENGTH = 10.0
# Includes words of one letter: "I", and the "t" of "don't".
_WORD = r"(?u)\b\w+\b"


def is_cheap(training: Dataset) -> bool:
    """Whether the baseline takes seconds beside the minutes of a network."""
    characters = sum(map(len, training.texts))
    return len(training) <= MOST_ROWS and characters <= MOST_CHARACTERS


def fit_tfidf(training: Dataset) -> Pipeline | None:
    """Fits the baseline to words and pairs of words; deterministic. None if no text has a word."""
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORD),
        LogisticRegression(C=_STRENGTH, max_iter=1000),
    )
    try:
        return pipeline.fit(training.texts, training.label_ids)
    except ValueError:  # scikit-learn's error for an empty vocabulary
        return None


def baseline_accuracy(training: Dataset, validation: Dataset) -> float | None:
    """Fits the baseline, and returns its accuracy; None if no text has a word."""
    pipeline = fit_tfidf(training)
    if pipeline is None:
        return None
    return float(accuracy_score(validation.label_ids, pipeline.predict(validation.texts)))
