"""What the sets of a record are called."""

from pathlib import Path

import pytest

from tests.matching import exactly
from training.errors import RecipeError
from training.measure.evaluate import set_names


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("data/sst/dev.tsv.gz", "sst/dev"),
        ("/data/uci/amazon.tsv", "uci/amazon"),
        ("v1.2/dev.csv", "v1.2/dev"),
        ("dev.parquet", "dev"),
        ("/dev.tsv", "dev"),
        ("sst/.dev", "sst/.dev"),
        ("sst/dev", "sst/dev"),
    ],
)
def test_a_set_is_named_by_its_folder_and_its_file(file: str, name: str) -> None:
    assert set_names([Path(file)]) == [name]


def test_a_name_that_no_record_takes() -> None:
    message = (
        "a set would be recorded as 'a\\nb/dev', which has 7 characters: must be printable, with "
        "at most 200; rename the file"
    )
    with pytest.raises(RecipeError, match=exactly(message)):
        set_names([Path("a\nb/dev.tsv")])
    with pytest.raises(RecipeError, match="which has 201 characters"):
        set_names([Path("a" * 201)])


def test_two_of_one_name() -> None:
    assert set_names([Path("a/dev.tsv"), Path("b/dev.tsv")]) == ["a/dev", "b/dev"]
    message = "two files would be recorded as a/dev: give one of them another name or folder"
    with pytest.raises(RecipeError, match=exactly(message)):
        set_names([Path("a/dev.tsv"), Path("x/a/dev.csv")])
