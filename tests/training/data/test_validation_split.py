"""Training rows and validation rows: every row once, and no text on both sides."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.records import DataSource
from model.tables.columns import Columns
from tests.labelled_files import write_rows
from tests.matching import exactly
from training.data.dataset import Dataset
from training.data.validation_split import read_and_split, split_stratified
from training.errors import DataError, RecipeError


def key(text: str) -> str:
    """An independent reading of "the same text"."""
    folded = text.casefold()
    return "".join(filter(str.isalnum, folded)) or folded.strip()


def parts(
    *files: Path,
    validation: tuple[Path, ...] = (),
    labels: tuple[str, ...] | None = None,
    **changes: object,
) -> tuple[Dataset, Dataset]:
    """As the preset of the course holds out: the last fifth, unless something else is said."""
    options: dict[str, Any] = {"which": "last", "share": 0.2, "seed": 0, **changes}
    return read_and_split(files, validation, columns=Columns(), labels=labels, **options)


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
    written = [(f"t{number}", int(number >= 100)) for number in range(120)]
    path = write_rows(tmp_path / "a.tsv", list(written))
    training, validation = parts(path, which="random", share=0.1)
    assert Counter(validation.label_ids) == {0: 10, 1: 2}
    assert rows_of(training) + rows_of(validation) == Counter(written)
    assert validation != parts(path, which="random", share=0.1, seed=1)[1]
    assert training.sources == validation.sources


def test_a_class_that_is_only_held_out_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.tsv", [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 1)])
    message = "no training row has the label positive: add rows, or leave it out of --labels"
    with pytest.raises(RecipeError, match=exactly(message)):
        parts(path)


WORDS = st.sampled_from(["good", "Good!", "GOOD", "bad", "b a d", ":)", ":(", "é", "ok", "so so"])
LABELLED = st.lists(st.tuples(WORDS, st.sampled_from([0, 1])), max_size=30)
# Two texts that nothing else looks like, for each class, so that a split is always possible.
ANCHORS = [("first", 0), ("second", 0), ("third", 1), ("fourth", 1)]


@given(rows=LABELLED, share=st.floats(0.01, 0.99), seed=st.integers(0, 2**32))
def test_no_text_is_on_both_sides(rows: list[tuple[str, int]], share: float, seed: int) -> None:
    rows = [*rows, *ANCHORS]
    whole = labelled(rows)
    training, held_out = split_stratified(whole, share=share, seed=seed)
    assert (training, held_out) == split_stratified(whole, share=share, seed=seed)
    assert not {key(text) for text in training.texts} & {key(text) for text in held_out.texts}
    both = [*zip(training.texts, training.label_ids, strict=True)]
    both += zip(held_out.texts, held_out.label_ids, strict=True)
    assert sorted(both) == sorted(rows)
    for part in (training, held_out):
        places = iter(rows)
        assert all(row in places for row in zip(part.texts, part.label_ids, strict=True))
    assert training.texts
    assert held_out.texts


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_out_of_range(share: float) -> None:
    message = f"the share held out must be between 0 and 1, got {share}"
    with pytest.raises(RecipeError, match=exactly(message)):
        split_stratified(labelled([("a", 0), ("b", 1)]), share=share, seed=0)


def test_a_class_with_one_text_cannot_be_split() -> None:
    message = (
        "rows.tsv: class b has 1 different texts, at least 2 are needed to hold one out: "
        "add rows, or give a file to validate on"
    )
    whole = labelled([("one", 0), ("two", 0), ("same", 1), ("Same!", 1)])
    with pytest.raises(DataError, match=exactly(message)):
        split_stratified(whole, share=0.5, seed=0)


def labelled(rows: list[tuple[str, int]], labels: tuple[str, ...] = ("a", "b")) -> Dataset:
    texts, label_ids = zip(*rows, strict=True)
    source = DataSource(file="rows.tsv", rows=len(rows), sha256="0" * 64)
    return Dataset(texts, label_ids, labels, (source,))


def rows_of(part: Dataset) -> Counter[tuple[str, int]]:
    return Counter(zip(part.texts, part.label_ids, strict=True))
