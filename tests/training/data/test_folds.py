"""Rows in folds: every row once, classes alike, and no text on both sides."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.manifest import DataSource
from training.data.dataset import Dataset
from training.data.validation_split import split_folds, text_key
from training.errors import DataError


def dataset(rows: list[tuple[str, int]], labels: tuple[str, ...] = ("a", "b")) -> Dataset:
    texts, label_ids = zip(*rows, strict=True)
    source = DataSource(file="rows.tsv", rows=len(rows), sha256="0" * 64)
    return Dataset(texts, label_ids, labels, (source,))


def rows_of(part: Dataset) -> Counter[tuple[str, int]]:
    return Counter(zip(part.texts, part.label_ids, strict=True))


@given(
    texts=st.integers(20, 60),
    copies=st.integers(0, 20),
    count=st.integers(2, 5),
    seed=st.integers(0, 5),
)
def test_every_row_is_in_one_fold_and_no_text_on_both_sides(
    texts: int, copies: int, count: int, seed: int
) -> None:
    rows = [(f"text {number}", number % 2) for number in range(texts)]
    # The same letters and digits: copies of the first texts.
    rows += [(f"Text, {number}!", number % 2) for number in range(copies)]
    whole = dataset(rows)

    folds = split_folds(whole, count=count, seed=seed)

    assert len(folds) == count
    inside: Counter[tuple[str, int]] = Counter()
    for rest, fold in folds:
        assert rows_of(rest) + rows_of(fold) == rows_of(whole)
        assert not {text_key(text) for text in rest.texts} & {text_key(text) for text in fold.texts}
        inside += rows_of(fold)
    assert inside == rows_of(whole)


def test_classes_have_the_same_share_in_each_fold() -> None:
    whole = dataset([(f"text {number}", int(number % 4 == 0)) for number in range(80)])

    for rest, fold in split_folds(whole, count=4, seed=0):
        assert Counter(fold.label_ids) == {0: 15, 1: 5}
        assert Counter(rest.label_ids) == {0: 45, 1: 15}


def test_the_seed_decides() -> None:
    whole = dataset([(f"text {number}", number % 2) for number in range(40)])

    first, again, other = (split_folds(whole, count=3, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("rare", "count", "told"),
    [
        (
            1,
            2,
            "class b has 1 different text, too few for 2 folds: each needs one, and two beside "
            "it to learn and to validate by; add rows",
        ),
        (
            3,
            2,
            "class b has 3 different texts, too few for 2 folds: each needs one, and two beside "
            "it to learn and to validate by; choose --folds 3, or add rows",
        ),
        (
            3,
            5,
            "class b has 3 different texts, too few for 5 folds: each needs one, and two beside "
            "it to learn and to validate by; choose --folds 3, or add rows",
        ),
    ],
)
def test_too_few_rows_are_refused(rare: int, count: int, told: str) -> None:
    whole = dataset([(f"text {n}", 0) for n in range(9)] + [(f"rare {n}", 1) for n in range(rare)])

    with pytest.raises(DataError) as refused:
        split_folds(whole, count=count, seed=0)

    assert str(refused.value) == f"{Path('rows.tsv')}: {told}"


@pytest.mark.parametrize(("rare", "count"), [(4, 2), (3, 3)])
def test_the_fewest_rows_that_are_enough(rare: int, count: int) -> None:
    whole = dataset([(f"text {n}", 0) for n in range(9)] + [(f"rare {n}", 1) for n in range(rare)])

    for rest, fold in split_folds(whole, count=count, seed=0):
        assert Counter(fold.label_ids)[1] >= 1
        assert Counter(rest.label_ids)[1] >= 2
