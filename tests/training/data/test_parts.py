"""The rows to learn from and the rows to validate by."""

from pathlib import Path
from typing import Any

import pytest

from tests.matching import exactly
from tests.training.labelled_files import write_rows
from training.data.data import Columns, Dataset
from training.data.parts import read_parts
from training.errors import DataError, RecipeError


def parts(
    *files: Path,
    validation: tuple[Path, ...] = (),
    labels: tuple[str, ...] | None = None,
    **changes: object,
) -> tuple[Dataset, Dataset]:
    """As the preset of the course holds out: the last fifth, unless something else is said."""
    options: dict[str, Any] = {"hold_out": "last", "share": 0.2, "seed": 0, **changes}
    return read_parts(files, validation, columns=Columns(), labels=labels, **options)


def rows(*texts: str, labels: tuple[int, ...] = (0, 1)) -> list[tuple[object, object]]:
    return [(text, labels[at % len(labels)]) for at, text in enumerate(texts)]


def test_the_last_rows_of_the_files_in_their_order(tmp_path: Path) -> None:
    first = write_rows(tmp_path / "a.tsv", rows("a0", "a1", "a2", "a3", "a4", "a5"))
    second = write_rows(tmp_path / "b.tsv", rows("b0", "b1", "b2", "b3"))

    training, validation = parts(first, second)

    assert training.texts == ("a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1")
    assert validation.texts == ("b2", "b3")
    assert validation.label_ids == (0, 1)


def test_some_of_each_class_by_chance(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", rows(*(f"t{number}" for number in range(40))))

    training, validation = parts(path, hold_out="random", share=0.25)

    assert sorted(validation.label_ids) == [0] * 5 + [1] * 5
    assert not set(training.texts) & set(validation.texts)
    assert len(training) == 30


def test_files_of_their_own(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", rows("a", "b"))
    other = write_rows(tmp_path / "b.tsv", rows("c", "d", "e"))

    training, validation = parts(path, validation=(other,))

    assert (training.texts, validation.texts) == (("a", "b"), ("c", "d", "e"))


def test_a_class_that_is_only_held_out_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 1)])
    message = "no training row has the label positive: add rows, or leave it out of --labels"

    with pytest.raises(RecipeError, match=exactly(message)):
        parts(path)


def test_one_row_cannot_be_parted(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", [("a", 0)])

    with pytest.raises((DataError, RecipeError)):
        parts(path, labels=("x", "y"))
