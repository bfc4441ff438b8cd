"""Nothing of what is held out is trained on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.validation_split import choose_held_out, rows_without_overlap, word_key
from training.errors import RecipeError

HELD = "A warm and funny film with a superb cast, all in all."


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


def test_rows_that_tell_of_a_held_out_text_go() -> None:
    texts = [
        HELD.lower(),  # the text itself
        "a warm and funny film",  # a part of it
        "superb cast",  # too short to tell
        "funny",
        f"Well. {HELD} Indeed.",  # has it as its part
        "warm and funny films",  # another word
        "a dull film",
    ]

    assert rows_without_overlap(texts, [HELD]) == [2, 3, 5, 6]


def test_longer_texts_are_chosen_as_the_seed_says() -> None:
    texts = {"a": ["short"] * 5 + [f"one two three four five six seven {n}" for n in range(20)]}

    chosen = choose_held_out(texts, {"a": 6}, seed=0)

    assert chosen == choose_held_out(texts, {"a": 6}, seed=0)
    assert chosen != choose_held_out(texts, {"a": 6}, seed=1)
    assert len(set(chosen["a"])) == 6
    assert min(chosen["a"]) >= 5
    assert chosen["a"] == sorted(chosen["a"])
    assert len(choose_held_out(texts, {"a": 20}, seed=0)["a"]) == 20


WORDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), max_size=12)


@given(texts=TEXTS, held_out=TEXTS)
def test_what_stays_shares_no_text(texts: list[str], held_out: list[str]) -> None:
    """By comparing each with each."""

    def tells(text: str, held: str) -> bool:
        one, other = word_key(text), word_key(held)
        return one == other or other in one or (len(text.split()) >= 3 and one in other)

    assert rows_without_overlap(texts, held_out) == [
        at for at, text in enumerate(texts) if not any(tells(text, held) for held in held_out)
    ]
