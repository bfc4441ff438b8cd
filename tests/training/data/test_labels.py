"""Labels as files spell them, the classes they make, and the class that each means."""

import pytest

from tests.matching import exactly
from training.data.labels import Label, class_number, name_classes, parse_label

EMPTY = "the label is empty: give every row a label, or leave the row out"


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("positive", "positive"),
        (" positive ", "positive"),
        ("5 stars", "5 stars"),
        ("1", 1),
        ("-1", -1),
        ("1.0", 1),
        (1, 1),
        (1.0, 1),
        (True, 1),
        (False, 0),
        ("True", "True"),
    ],
)
def test_labels_are_words_or_whole_numbers(value: object, label: Label) -> None:
    parsed = parse_label(value)

    assert parsed == label
    assert type(parsed) is type(label)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_an_empty_label_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=exactly(EMPTY)):
        parse_label(value)


@pytest.mark.parametrize("value", ["0.5", 0.5, "nan", float("nan"), "inf", ["positive"], {}, b"1"])
def test_what_is_neither_word_nor_whole_number_is_refused(value: object) -> None:
    message = (
        f"label {value!r} is neither a word nor a whole number: name each class by a word, "
        "or number the classes from 0"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        parse_label(value)


def test_a_long_label_is_shown_short() -> None:
    message = (
        f"label ['{'a' * 35}... is neither a word nor a whole number: name each class by a word, "
        "or number the classes from 0"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        parse_label(["a" * 100])


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ({0, 1}, ("negative", "positive")),
        ({0, 1, 2}, ("0", "1", "2")),
        ({10, 9, 1}, ("1", "9", "10")),
        ({-1, 1}, ("-1", "1")),
        ({"pos", "neg", "mixed"}, ("mixed", "neg", "pos")),
    ],
)
def test_names_of_classes(found: set[Label], names: tuple[str, ...]) -> None:
    assert name_classes(found) == names


@pytest.mark.parametrize(
    ("label", "labels", "number"),
    [
        ("positive", ("negative", "positive"), 1),
        ("negative", ("positive", "negative"), 1),
        (0, ("positive", "negative"), 0),
        (2, ("bad", "mixed", "good"), 2),
        (5, ("1", "2", "3", "4", "5"), 4),
        (1, ("1", "2", "3", "4", "5"), 0),
        (-1, ("-1", "1"), 0),
    ],
)
def test_a_label_is_found_by_name_or_place(
    label: Label, labels: tuple[str, ...], number: int
) -> None:
    assert class_number(label, labels) == number


@pytest.mark.parametrize(
    ("label", "labels", "fault"),
    [
        ("maybe", ("no", "yes"), "label 'maybe' is not one of no, yes (or 0 to 1)"),
        ("Yes", ("no", "yes"), "label 'Yes' is not one of no, yes (or 0 to 1)"),
        (2, ("no", "yes"), "label 2 is not one of no, yes (or 0 to 1)"),
        (-1, ("no", "yes"), "label -1 is not one of no, yes (or 0 to 1)"),
        # A name that is a number rules out that numbers are places: 0 would be ambiguous.
        (0, ("1", "2"), "label 0 is not one of 1, 2"),
    ],
)
def test_an_unknown_label_is_refused(label: Label, labels: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"{fault}: correct it, or leave the row out")):
        class_number(label, labels)
