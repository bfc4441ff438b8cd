"""What the values of a column mean, and the table that compares them with the answers."""

import re

import pytest

from scoring.comparing import Comparison
from scoring.errors import OptionError

THREE = ("negative", "neutral", "positive")


def compared(
    column: str, rows: list[tuple[object, str, float]], labels: tuple[str, ...] = THREE
) -> list[str]:
    comparison = Comparison(column, labels)
    for number, (value, label, score) in enumerate(rows, start=2):
        comparison.add(value, label, score, number)
    return list(comparison.lines())


def test_the_table_and_the_rows_that_disagree_most() -> None:
    rows: list[tuple[object, str, float]] = [
        ("positive", "positive", 0.9),
        ("POSITIVE", "positive", 0.8),
        ("positive", "negative", 0.7),
        ("neg", "positive", 0.95),
        ("", "positive", 0.6),
        ("unknown", "positive", 0.6),
    ]
    assert compared("label", rows) == [
        "agreement with 'label': 2 of 4 rows, 50.0%",
        "not compared: 2 rows without a label that the model has",
        "  in the file     negative      neutral     positive   (predicted)",
        "     negative            0            0            1",
        "      neutral            0            0            0",
        "     positive            1            0            2",
        "rows that disagree most:",
        "  row 5: negative in the file, predicted positive, score 0.9500",
        "  row 4: positive in the file, predicted negative, score 0.7000",
    ]


@pytest.mark.parametrize(
    ("column", "values", "labels", "names"),
    [
        ("stars", [1, "2", 3.0, "4.0", 5], THREE, "negative negative neutral positive positive"),
        ("x", ["5", "1"], THREE, "positive negative"),
        ("label", [0, 1], THREE, "negative positive"),
        ("label", [True, False], THREE, "positive negative"),
        ("label", [0, 1, 2], THREE, "negative neutral positive"),
        ("label", [1, 2], ("1", "2"), "1 2"),
        ("label", ["Pos", "NEU"], THREE, "positive neutral"),
    ],
)
def test_values_that_are_understood(
    column: str, values: list[object], labels: tuple[str, ...], names: str
) -> None:
    rows = list(zip(values, names.split(), [0.9] * len(values), strict=True))
    (first, *_) = compared(column, rows, labels)
    assert first == f"agreement with {column!r}: {len(values)} of {len(values)} rows, 100.0%"


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([1, 2], "--compare x: its numbers from 1 to 2 are neither 0 and 1, nor 0 to 2, nor stars"),
        ([1, 2, 3], "--compare x: its numbers from 1 to 3 are neither"),
        ([-1, 1], "--compare x: its numbers from -1 to 1 are neither"),
        (["good", "1"], "--compare x: none of its values is one of negative, neutral, positive"),
    ],
)
def test_values_that_may_mean_anything_are_refused(values: list[object], fault: str) -> None:
    with pytest.raises(OptionError, match=re.escape(fault)):
        compared("x", [(value, "neutral", 0.5) for value in values])


def test_a_column_of_texts_is_refused() -> None:
    with pytest.raises(OptionError, match="has more than 100 different values: name a column of"):
        compared("text", [(f"text {number}", "neutral", 0.5) for number in range(400)])
