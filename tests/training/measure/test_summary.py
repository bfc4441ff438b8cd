"""The lines of a run and its warnings."""

import numpy as np
import pytest

from training.data.dataset import Dataset
from training.measure import summary, tfidf
from training.measure.history import Measurement
from training.measure.metrics import Figures, measure

THREE = ("bad", "fair", "good")
ROWS = Dataset(("a b", "b c", "c d", "d e"), (0, 2, 2, 2), THREE, ())


def epoch(number: int, loss: float, *, is_best: bool = False) -> Measurement:
    figures = (0.75, 0.6, loss, 0.5, 1e-3, number * 2.2)
    return Measurement(number * 5, number, *figures, is_best=is_best)


HISTORY = [epoch(1, 0.7, is_best=True), epoch(2, 0.5, is_best=True), epoch(3, 0.6), epoch(4, 0.5)]


def test_an_epoch_is_one_line_and_the_best_so_far_is_marked() -> None:
    lines = [summary.epoch_line(HISTORY[:count], epochs=9) for count in range(1, 5)]
    assert lines[1] == (
        "epoch 2/9: training loss 0.7500, accuracy 60.00%; validation loss 0.5000, accuracy "
        "50.00%; best"
    )
    assert [line.endswith("; best") for line in lines] == [True, True, False, False]


@pytest.mark.parametrize(
    ("epochs", "kept", "words"),
    [
        (4, 0, "trained 4 of 4 epochs in 9 s; keeps what it began with"),
        (4, 4, "trained 4 of 4 epochs in 9 s; keeps the weights of epoch 4"),
        (
            9,
            2,
            "trained 4 of 9 epochs in 9 s; keeps the weights of epoch 2; stopped early: 2 epochs "
            "without a lower validation loss",
        ),
    ],
)
def test_the_end_names_the_weights_that_are_kept(epochs: int, kept: int, words: str) -> None:
    assert summary.end_line(HISTORY, epochs=epochs, kept=kept) == words


def test_figures_have_macro_f1_and_the_recall_of_each_class() -> None:
    probabilities = np.eye(3)[[0, 2, 2, 0]] * 0.7 + 0.1
    assert summary.figure_lines(
        "validation", measure(probabilities, np.array([0, 2, 2, 2])), THREE
    ) == [
        "validation: accuracy 75.00% (95 % interval 30.06% to 95.44%, 4 rows), macro F1 0.7333, "
        "log-loss 0.7430, ECE 0.0500",
        "  recall: bad 100.00% of 1, fair unknown (no rows), good 66.67% of 3",
    ]


def test_what_is_to_beat() -> None:
    validation = Dataset(("x", "y"), (2, 0), THREE, ())
    assert summary.majority(ROWS, validation) == ("good", 0.5)
    expected = "  to beat: always good 50.00%, TF-IDF with logistic regression 75.00%"
    assert summary.baseline_line("good", 0.5, 0.75, was_fitted=True) == expected
    assert summary.baseline_line("good", 0.5, 0.75, was_fitted=True, start=("a/b", 0.625)) == (
        "  to beat: always good 50.00%, a/b before training 62.50%, TF-IDF with logistic "
        "regression 75.00%"
    )
    assert summary.baseline_line("good", 0.5, None, was_fitted=False) == (
        "  to beat: always good 50.00%; TF-IDF with logistic regression left out (tried up to "
        "50,000 short rows)"
    )
    assert summary.baseline_line("good", 0.5, None, was_fitted=True).endswith(
        "(the texts have no words)"
    )


def test_the_baseline_learns_words_and_is_the_same_each_time() -> None:
    texts = tuple(f"{word} film {place}" for place in range(40) for word in ("dull", "rich"))
    rows = Dataset(texts, tuple(place % 2 for place in range(80)), ("bad", "good"), ())
    other = Dataset(("so dull", "so rich", "dull"), (0, 1, 1), ("bad", "good"), ())
    assert tfidf.baseline_accuracy(rows, other) == pytest.approx(2 / 3)
    assert tfidf.baseline_accuracy(rows, other) == tfidf.baseline_accuracy(rows, other)
    wordless = Dataset(("!", "?"), (0, 1), ("bad", "good"), ())
    assert tfidf.baseline_accuracy(wordless, wordless) is None


def test_the_baseline_is_left_out_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tfidf.is_cheap(ROWS)
    for limit in ("MOST_ROWS", "MOST_CHARACTERS"):
        with monkeypatch.context() as patch:
            patch.setattr(tfidf, limit, 3)
            assert not tfidf.is_cheap(ROWS)


TWO = ("bad", "good")


def dataset(*counts: int, start: int = 0, labels: tuple[str, ...] = TWO) -> Dataset:
    """Rows of different texts, so many of each class."""
    label_ids = [number for number, count in enumerate(counts) for _ in range(count)]
    texts = [f"text {start + place}" for place in range(len(label_ids))]
    return Dataset(tuple(texts), tuple(label_ids), labels, ())


def figures(right: int, wrong: int) -> Figures:
    """Figures of so many rows, half of each class."""
    truth = np.arange(right + wrong) % 2
    predicted = np.where(np.arange(right + wrong) < right, truth, 1 - truth)
    return measure(np.eye(2)[predicted], truth)


@pytest.mark.parametrize(
    ("training", "validation", "warnings"),
    [
        (dataset(400, 400), dataset(100, 100, start=1000), []),
        (
            dataset(400, 400),
            dataset(24, 24, start=1000),
            ["48 validation rows are few: an accuracy near 50% on them has a 95 % interval of 36%"],
        ),
        (
            dataset(300, 9, 300, labels=THREE),
            dataset(200, 0, 3, start=1000, labels=THREE),
            [
                "training rows below 10 for a class (fair 9): ",
                "no validation rows are fair: ",
                "validation rows below 10 for a class (good 3): ",
            ],
        ),
        (dataset(19, 981), dataset(100, 100, start=2000), ["98.1% of the training rows are good"]),
        (dataset(20, 80), dataset(100, 100, start=2000), []),
    ],
)
def test_rows_that_are_few_or_uneven(
    training: Dataset, validation: Dataset, warnings: list[str]
) -> None:
    found = summary.row_warnings(training, validation, {})
    assert len(found) == len(warnings)
    assert all(map(str.startswith, found, warnings))


def test_labels_that_disagree_and_texts_on_both_sides_are_counted() -> None:
    texts = ("Fine!", "fine", *(f"text {number}" for number in range(398)))
    training = Dataset(texts, tuple(place % 2 for place in range(400)), TWO, ())
    held_out = dataset(100, 100, start=395)
    assert summary.row_warnings(training, held_out, {"x/test": dataset(1, 1, start=5000)}) == [
        "1 text is in the training rows with more than one label",
        "3 of the 200 texts of validation are training texts too: its figures flatter the model",
    ]
    (caution,) = summary.row_warnings(
        dataset(200, 200), dataset(100, 100, start=1000), {"x/test": dataset(1, 1)}
    )
    assert caution.startswith("2 of the 2 texts of x/test are training texts too")


def recalled(right: int, rows: int) -> Figures:
    """Figures of three classes, of which the one between is recognised that often."""
    truth = np.array([0] * 30 + [1] * rows + [2] * 30)
    answers = truth.copy()
    answers[30 + right : 30 + rows] = 2
    return measure(np.eye(3)[answers] * 0.7 + 0.1, truth)


@pytest.mark.parametrize(
    ("right", "rows", "advised"),
    [(4, 10, True), (5, 10, False), (3, 9, False), (9, 30, False), (13, 29, True)],
)
def test_weights_are_advised_for_rare_classes_that_are_mostly_missed(
    right: int, rows: int, advised: bool
) -> None:
    found = recalled(right, rows)
    advice = (
        f"few validation rows are recognised of fair ({right / rows:.2%} of {rows}), rarer than "
        "the other classes: try balanced class weights"
    )
    words = summary.result_warnings(found, 1.2, THREE, share=0.1, baseline=None)
    assert words == ([advice] if advised else [])
    assert (
        summary.result_warnings(found, 1.2, THREE, share=0.1, baseline=None, is_balanced=True) == []
    )


def test_a_checkpoint_that_was_better_before_training_is_named() -> None:
    found = figures(600, 400)
    words = summary.result_warnings(found, 1.2, TWO, share=0.5, baseline=None, start=("a/b", 0.625))
    assert words == [
        "a/b is better on the validation rows as it is: 62.50% against 60.00%; try a lower "
        "learning rate or more rows"
    ]
    assert not summary.result_warnings(
        found, 1.2, TWO, share=0.5, baseline=None, start=("a/b", 0.6)
    )


BOUND = "is at its bound (0.05 to 20.0): the probabilities are not calibrated"


@pytest.mark.parametrize(
    ("found", "temperature", "share", "baseline", "warnings"),
    [
        (figures(90, 10), 0.06, 0.5, 0.9, []),
        (figures(90, 10), 19.0, 0.5, None, []),
        (figures(90, 10), 0.0500001, 0.5, None, [f"the temperature 0.050 {BOUND}"]),
        (figures(90, 10), 19.99999, 0.5, None, [f"the temperature 20.000 {BOUND}"]),
        (figures(100, 0), 1.0, 0.5, None, ["no temperature could be fitted, because every vali"]),
        (
            figures(60, 40),
            1.2,
            0.6,
            0.75,
            [
                "the model is no better than always answering the most frequent class (60.00%)",
                "TF-IDF with logistic regression is better on the validation rows: 75.00% against "
                "60.00%",
            ],
        ),
        (
            figures(55, 45),
            1.2,
            0.5,
            None,
            [
                "the validation rows do not show that the model is better than always answering "
                "the most frequent class (50.00%): its interval begins at 45.24%"
            ],
        ),
        (figures(10, 90), 1.2, 0.5, None, ["an accuracy of 10.00% is worse than guessing: "]),
        (recalled(0, 9), 1.2, 0.5, None, []),
        (recalled(0, 10), 1.2, 0.5, None, ["not one validation row of fair is recognised: "]),
    ],
)
def test_results_that_are_poor(
    found: Figures, temperature: float, share: float, baseline: float | None, warnings: list[str]
) -> None:
    labels = THREE if len(found.f1) > 2 else TWO
    words = summary.result_warnings(found, temperature, labels, share=share, baseline=baseline)
    assert len(words) == len(warnings)
    assert all(map(str.startswith, words, warnings))
