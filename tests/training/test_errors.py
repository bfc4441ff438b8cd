"""The messages of training's errors and how they are told apart."""

from pathlib import Path

from training.errors import DataError


def test_a_fault_of_a_row_names_file_and_row() -> None:
    error = DataError(Path("reviews.csv"), "label 'maybe' is not known", row=17)

    assert str(error) == "reviews.csv: row 17: label 'maybe' is not known"
    assert (error.path, error.fault, error.row) == (
        Path("reviews.csv"),
        "label 'maybe' is not known",
        17,
    )


def test_a_fault_of_a_file_names_no_row() -> None:
    error = DataError(Path("reviews.csv"), "is empty")

    assert str(error) == "reviews.csv: is empty"
    assert error.row is None
