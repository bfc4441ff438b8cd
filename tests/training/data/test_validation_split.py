"""Training rows, validation rows and folds: every row once, and no text on both sides."""

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
from training.data.validation_split import (
    choose_held_out,
    read_and_split,
    rows_without_overlap,
    split_folds,
    split_stratified,
    text_key,
    word_key,
)
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
    options: dict[str, Any] = {"hold_out": "last", "share": 0.2, "seed": 0, **changes}
    return read_and_split(files, validation, columns=Columns(), labels=labels, **options)[1:]


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

    training, validation = parts(path, hold_out="random", share=0.1)

    assert Counter(validation.label_ids) == {0: 10, 1: 2}
    assert rows_of(training) + rows_of(validation) == Counter(written)
    assert validation != parts(path, hold_out="random", share=0.1, seed=1)[1]
    assert training.sources == validation.sources


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
    whole = labelled(rows)

    folds = split_folds(whole, count=count, seed=seed)

    assert folds == split_folds(whole, count=count, seed=seed)
    assert folds != split_folds(whole, count=count, seed=seed + 1)
    assert len(folds) == count
    inside: Counter[tuple[str, int]] = Counter()
    for rest, fold in folds:
        assert rows_of(rest) + rows_of(fold) == rows_of(whole)
        assert not {text_key(text) for text in rest.texts} & {text_key(text) for text in fold.texts}
        inside += rows_of(fold)
    assert inside == rows_of(whole)


def test_classes_have_the_same_share_in_each_fold() -> None:
    whole = labelled([(f"text {number}", int(number % 4 == 0)) for number in range(80)])

    for rest, fold in split_folds(whole, count=4, seed=0):
        assert Counter(fold.label_ids) == {0: 15, 1: 5}
        assert Counter(rest.label_ids) == {0: 45, 1: 15}


@pytest.mark.parametrize(
    ("rare", "count", "told"),
    [
        (1, 2, r"rows.tsv: class b has 1 different text, too few for 2 folds: .*; add rows$"),
        (3, 2, r"b has 3 different texts, too few for 2 folds: .*; choose --folds 3, or add rows$"),
    ],
)
def test_too_few_rows_for_folds_are_refused(rare: int, count: int, told: str) -> None:
    whole = labelled([(f"text {n}", 0) for n in range(9)] + [(f"rare {n}", 1) for n in range(rare)])

    with pytest.raises(DataError, match=told):
        split_folds(whole, count=count, seed=0)


@pytest.mark.parametrize(("rare", "count"), [(4, 2), (3, 3)])
def test_the_fewest_rows_that_are_enough(rare: int, count: int) -> None:
    whole = labelled([(f"text {n}", 0) for n in range(9)] + [(f"rare {n}", 1) for n in range(rare)])

    for rest, fold in split_folds(whole, count=count, seed=0):
        assert Counter(fold.label_ids)[1] >= 1
        assert Counter(rest.label_ids)[1] >= 2


def test_the_words_of_a_text() -> None:
    assert word_key("It 's  A_good-film!") == " it s a good film "


@pytest.mark.parametrize(
    ("penn", "plain"),
    [
        ("It ca n't be -LRB- I do n't know -RRB- .", "it can't be (I don't know)."),
        ("it 's fun , is n't it ?", "It\u2019s fun, isn\u2019t it?"),
        ("you can not go", "You cannot go!"),
    ],
)
def test_the_same_words_in_the_penn_style(penn: str, plain: str) -> None:
    assert word_key(penn) == word_key(plain)
    assert (
        rows_without_overlap([f"well , {penn} so it is", plain], [f"Well, {plain} So it is."]) == []
    )


def test_the_same_letters_are_the_same_text() -> None:
    texts = ["I 'm gon na see it , do n`t ask", "im gonna see it dont ask", "a gon na"]

    assert rows_without_overlap(texts, ["I'm gonna see it, don't ask"]) == [2]


def test_a_source_without_enough_long_rows_is_told() -> None:
    texts = {"a": ["lol ! ! ! ! ! ! !", "one two three four five six seven eight"]}

    with pytest.raises(RecipeError, match=r"^source a: hold_out is 2, but 1 of its rows have 8 w"):
        choose_held_out(texts, {"a": 2}, seed=0)


def test_longer_texts_are_chosen_as_the_seed_says() -> None:
    texts = {"a": ["short"] * 5 + [f"one two three four five six seven {n}" for n in range(20)]}

    chosen = choose_held_out(texts, {"a": 6}, seed=0)

    assert chosen == choose_held_out(texts, {"a": 6}, seed=0)
    assert chosen != choose_held_out(texts, {"a": 6}, seed=1)
    assert len(set(chosen["a"])) == 6
    assert min(chosen["a"]) >= 5
    assert chosen["a"] == sorted(chosen["a"])
    assert len(choose_held_out(texts, {"a": 20}, seed=0)["a"]) == 20


LETTERS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.lists(LETTERS, min_size=1, max_size=6).map(" ".join), max_size=12)


@given(texts=TEXTS, held_out=TEXTS)
def test_what_stays_shares_no_text(texts: list[str], held_out: list[str]) -> None:
    """By comparing each with each."""

    def tells(text: str, held: str) -> bool:
        one, other = word_key(text), word_key(held)
        return one == other or other in one or (len(text.split()) >= 3 and one in other)

    assert rows_without_overlap(texts, held_out) == [
        at for at, text in enumerate(texts) if not any(tells(text, held) for held in held_out)
    ]
