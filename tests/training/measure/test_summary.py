"""What a run tells people, word by word."""

import numpy as np
import pytest

from training.data.dataset import Dataset
from training.measure import tfidf
from training.measure.history import Measurement
from training.measure.metrics import measure
from training.measure.summary import (
    baseline_line,
    end_line,
    epoch_line,
    figure_lines,
    majority,
    rows_line,
)

LABELS = ("bad", "fair", "good")
ROWS = Dataset(("a b", "b c", "c d", "d e"), (0, 2, 2, 2), LABELS, ())


def epoch(number: int, loss: float) -> Measurement:
    return Measurement(number * 5, number, 0.75, 0.6, loss, 0.5, 1e-3, number * 2.2)


HISTORY = [epoch(1, 0.7), epoch(2, 0.5), epoch(3, 0.6), epoch(4, 0.5)]


def test_rows_are_counted_by_class() -> None:
    assert rows_line(ROWS, "learn from") == (
        "4 rows to learn from: bad 1 (25.0%), fair 0 (0.0%), good 3 (75.0%)"
    )


def test_an_epoch_is_one_line_and_the_best_so_far_is_marked() -> None:
    lines = [epoch_line(HISTORY[:count], epochs=9) for count in range(1, 5)]
    assert lines[1] == (
        "epoch 2/9: training loss 0.7500, accuracy 60.00%; validation loss 0.5000, accuracy "
        "50.00%; best"
    )
    assert [line.endswith("; best") for line in lines] == [True, True, False, False]


@pytest.mark.parametrize(
    ("epochs", "keeps_best", "told"),
    [
        (4, True, "trained 4 of 4 epochs in 9 s; keeps the weights of epoch 2"),
        (4, False, "trained 4 of 4 epochs in 9 s; keeps the weights of epoch 4"),
        (
            9,
            True,
            "trained 4 of 9 epochs in 9 s; keeps the weights of epoch 2; stopped early: 2 epochs "
            "without a lower validation loss",
        ),
    ],
)
def test_the_end_tells_which_weights_are_kept(epochs: int, keeps_best: bool, told: str) -> None:
    assert end_line(HISTORY, epochs=epochs, keeps_best=keeps_best) == told


def test_figures_have_macro_f1_and_the_recall_of_each_class() -> None:
    probabilities = np.eye(3)[[0, 2, 2, 0]] * 0.7 + 0.1
    assert figure_lines("validation", measure(probabilities, np.array([0, 2, 2, 2])), LABELS) == [
        "validation: accuracy 75.00% (95 % interval 30.06% to 95.44%, 4 rows), macro F1 0.7333, "
        "log-loss 0.7430, ECE 0.0500",
        "  recall: bad 100.00% of 1, fair unknown (no rows), good 66.67% of 3",
    ]


def test_what_is_to_beat() -> None:
    validation = Dataset(("x", "y"), (2, 0), LABELS, ())
    assert majority(ROWS, validation) == ("good", 0.5)
    assert baseline_line("good", 0.5, 0.75, was_fitted=True) == (
        "  to beat: always good 50.00%, TF-IDF with logistic regression 75.00%"
    )
    assert baseline_line("good", 0.5, None, was_fitted=False) == (
        "  to beat: always good 50.00%; TF-IDF with logistic regression left out (tried up to "
        "50,000 short rows)"
    )
    assert baseline_line("good", 0.5, None, was_fitted=True).endswith("(the texts have no words)")


def test_the_baseline_learns_words_and_is_the_same_each_time() -> None:
    texts = tuple(f"{word} film {place}" for place in range(40) for word in ("dull", "rich"))
    rows = Dataset(texts, tuple(place % 2 for place in range(80)), ("bad", "good"), ())
    other = Dataset(("so dull", "so rich", "dull"), (0, 1, 1), ("bad", "good"), ())
    assert tfidf.baseline_accuracy(rows, other) == pytest.approx(2 / 3)
    assert tfidf.baseline_accuracy(rows, other) == tfidf.baseline_accuracy(rows, other)


def test_the_baseline_needs_words() -> None:
    rows = Dataset(("!", "?"), (0, 1), ("bad", "good"), ())
    assert tfidf.baseline_accuracy(rows, rows) is None


def test_the_baseline_is_left_out_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tfidf.is_cheap(ROWS)
    for limit in ("MOST_ROWS", "MOST_CHARACTERS"):
        with monkeypatch.context() as patch:
            patch.setattr(tfidf, limit, 3)
            assert not tfidf.is_cheap(ROWS)
