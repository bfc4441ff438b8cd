"""The sources of a recipe: validation rows, and texts that are kept out of training."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.data import LABELS, Source, _word_key, overlap_with, read_data, read_sources
from recipes.default import KEEP_OUT
from training.errors import RecipeError


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def test_no_source_is_a_file_that_the_result_is_measured_on() -> None:
    sources = read_sources()
    assert not {source.file for source in sources} & set(KEEP_OUT)
    assert {source.classes for source in sources} == {0, 2, 3}
    assert sum(source.validation for source in sources) == 3100


def test_what_is_measured_or_validated_on_is_not_learnt(tmp_path: Path) -> None:
    held = [f"one two three four five six seven {n}\t{LABELS[n % 3]}" for n in range(6)]
    write(
        tmp_path / "three.tsv.gz", "text\tlabel", *held, "so so\tneutral", "It was, DULL\tnegative"
    )
    write(tmp_path / "pair.tsv.gz", "text\tlabel", "dull it was\t0", "fine\t1")
    write(tmp_path / "reviews.tsv.gz", "text", "Well: it was dull!", "It was dull.", "Free of it.")
    write(tmp_path / "dev.tsv.gz", "text\tlabel", "it was dull\t0", "nice\t1")
    sources = (
        Source("three.tsv.gz", 3, validation=9),
        Source("pair.tsv.gz", 2),
        Source("reviews.tsv.gz", 0),
    )

    data = read_data(tmp_path, sources, keep_out=["dev.tsv.gz"], most_validation=6)

    assert sorted(data.validation.texts) == [line.partition("\t")[0] for line in held]
    assert data.validation.label_ids == (0, 1, 2, 0, 1, 2)
    assert data.rows["three.tsv.gz"].texts == ("so so",)
    assert (data.rows["pair.tsv.gz"].texts, data.rows["pair.tsv.gz"].label_ids) == (
        ("dull it was", "fine"),
        (0, 2),
    )
    assert data.reviews == {"reviews.tsv.gz": ["Well: it was dull!", "Free of it."]}
    assert data.measured == {"itwasdull", "nice"}
    assert not data.evaluated
    assert [(each.file, each.rows) for each in data.validation.sources] == [
        ("three.tsv.gz", 8),
        ("pair.tsv.gz", 2),
        ("reviews.tsv.gz", 3),
    ]
    message = "9 validation rows are wanted, but 6 of its rows have 8 "
    with pytest.raises(RecipeError, match=message):
        read_data(tmp_path, sources, keep_out=[], most_validation=9)
    three = read_data(tmp_path, [], keep_out=["three.tsv.gz"], most_validation=0).evaluated
    assert {name: len(rows) for name, rows in three.items()} == {"three": 8}


@pytest.mark.parametrize(
    ("penn", "plain"),
    [
        ("It ca n't be -LRB- I do n't know -RRB- .", "it can't be (I don't know)."),
        ("it 's fun , is n't it ?", "It\u2019s fun, isn\u2019t it?"),
        ("you can not go", "You cannot go!"),
    ],
)
def test_the_same_words_in_the_penn_style(penn: str, plain: str) -> None:
    assert overlap_with([f"Well, {plain} So it is."])(f"well , {penn} so it is")
    assert overlap_with([plain])(penn)


def test_the_same_letters_are_the_same_text() -> None:
    overlaps = overlap_with(["I'm gonna see it, don't ask"])
    assert overlaps("I 'm gon na see it , do n`t ask")
    assert not overlaps("a gon na")


LETTERS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.lists(LETTERS, min_size=1, max_size=6).map(" ".join), max_size=12)


@given(texts=TEXTS, validation=TEXTS)
def test_what_overlaps_shares_a_text(texts: list[str], validation: list[str]) -> None:
    """By comparing each with each."""

    def tells(text: str, held: str) -> bool:
        one, other = _word_key(text), _word_key(held)
        return one == other or other in one or (len(text.split()) >= 3 and one in other)

    overlaps = overlap_with(validation)
    assert [overlaps(text) for text in texts] == [
        any(tells(text, held) for held in validation) for text in texts
    ]
