"""Changes that must not matter."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.synth.augment import add_emoji, drop_marks, elongate, perturb_all
from training.synth.names import GIVEN_NAMES, PLACES, swap_names

TEXTS = ["Anna went to Oslo, and it was superb.", "why?", "The plot drags; the cast shines!"]


def rng(seed: int) -> random.Random:
    return random.Random(seed)


def test_a_vowel_is_drawn_out() -> None:
    assert elongate("a film", rng(0)) in {"a fiiilm", "a fiiiilm", "a fiiiiilm"}
    assert elongate("so so", rng(0)) == "so so"


def test_marks_go_or_double_but_questions_stay_questions() -> None:
    assert {drop_marks("Well, is it? Yes.", rng(seed)) for seed in range(9)} == {
        "Well is it? Yes",
        "Well,, is it? Yes..",
    }
    assert drop_marks("3.5 of 5", rng(0)) == "3.5 of 5"


def test_an_emoji_without_sentiment_is_added() -> None:
    before, _, emoji = add_emoji("It ran.", rng(1)).rpartition(" ")

    assert before == "It ran."
    assert len(emoji) == 1
    assert not emoji.isalnum()


@pytest.mark.parametrize("seed", range(5))
def test_names_are_swapped_alike(seed: int) -> None:
    swapped = swap_names("Priya met Priya in Paris, said Parisa.", rng(seed))

    found = re.fullmatch(r"(\w+) met (\w+) in ([\w ]+), said (\w+)\.", swapped)
    assert found is not None
    assert found[1] == found[2] == found[4]
    assert found[1] in GIVEN_NAMES
    assert found[3] in PLACES


def test_every_text_is_disturbed_by_the_seed_alone() -> None:
    texts = TEXTS * 20

    perturbed = perturb_all(texts, seed=3)

    assert perturbed == perturb_all(texts, seed=3)
    assert perturbed != perturb_all(texts, seed=4)
    assert sum(one != other for one, other in zip(perturbed, texts, strict=True)) > 40


@given(st.text(), st.integers(0, 2**32))
def test_any_text_can_be_perturbed(text: str, seed: int) -> None:
    assert len(perturb_all([text], seed=seed)) == 1
