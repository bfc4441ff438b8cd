"""What the values of a column mean, and the table that compares them with the answers."""

import re

import pytest

from scoring.comparing import Comparison
from scoring.errors import ScoringError

THREE = ("negative", "neutral", "positive")
STARS = "1 and 2 are negative, 3 is neutral, 4 and 5 are positive"


def compared(
    column: str, rows: list[tuple[object, str, float]], labels: tuple[str, ...] = THREE
) -> list[str]:
    values = [(value, number) for number, (value, *_) in enumerate(rows, start=2)]
    comparison = Comparison("a.csv", column, labels, values)
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
        "  line 5: negative in the file, predicted positive, score 0.9500",
        "  line 4: positive in the file, predicted negative, score 0.7000",
    ]


@pytest.mark.parametrize(
    ("column", "values", "names", "read"),
    [
        ("stars", [1, "2", 3.0, "4.0", 5], "negative negative neutral positive positive", STARS),
        ("x", ["5", "1"], "positive negative", STARS),
        ("label", [0, 1], "negative positive", "0 is negative, 1 is positive"),
        ("label", [True, False], "positive negative", "0 is negative, 1 is positive"),
        (
            "label",
            [0, 1, 2],
            "negative neutral positive",
            "0 is negative, 1 is neutral, 2 is positive",
        ),
        ("label", ["Pos", "NEU"], "positive neutral", None),
    ],
)
def test_values_that_are_understood(
    column: str, values: list[object], names: str, read: str | None
) -> None:
    said = compared(column, list(zip(values, names.split(), [0.9] * len(values), strict=True)))
    if read is not None:
        assert said.pop(0) == f"numbers in {column!r}: {read}"
    assert said[0] == f"agreement with {column!r}: {len(values)} of {len(values)} rows, 100.0%"


def test_classes_that_numbers_name_are_not_counted_from_0() -> None:
    said = compared("label", [(1, "1", 0.9), (2, "2", 0.9)], ("1", "2"))
    assert said[0] == "agreement with 'label': 2 of 2 rows, 100.0%"


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([1, 2], "has numbers from 1 to 2"),
        ([1, 2, 3], "has numbers from 1 to 3"),
        ([-1, 1], "has numbers from -1 to 1"),
        (["1", "", "Good"], "line 4 has 'Good'"),
        (["1", "1,5"], "line 3 has '1,5'"),
        ([4.0, 4.5], "line 3 has '4.5'"),
        (["", None], "has no values"),
    ],
)
def test_values_that_may_mean_anything_are_refused(values: list[object], fault: str) -> None:
    message = (
        f"--compare x: {fault}: name a column whose values are negative, neutral, positive, or all "
        "0 and 1, 0 to 2, or whole stars from 1 to 5"
    )
    with pytest.raises(ScoringError, match=f"^{re.escape(message)}$"):
        compared("x", [(value, "neutral", 0.5) for value in values])


def test_a_column_of_texts_is_refused() -> None:
    message = "has more than 100 different values: name a column whose"
    with pytest.raises(ScoringError, match=message):
        compared("text", [(f"text {number}", "neutral", 0.5) for number in range(400)])
