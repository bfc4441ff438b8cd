"""Changes of texts that leave their sentiment alone, and names in the place of masks."""

import random
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.augment import (
    GIVEN_NAMES,
    PLACES,
    add_emoji,
    add_link,
    add_typo,
    change_case,
    contract,
    detokenize_ptb,
    detokenize_share,
    drop_apostrophes,
    drop_marks,
    elongate,
    end,
    perturb_all,
    swap_names,
)

# What treebanks are made of, and what looks like it.
PIECES = (
    *("do", "it", "n't", "N'T", "'s", "'re", "'ve", "'ll", "'d", "'m", "'80s", "n'th"),
    *("-lrb-", "-RRB-", "``", "''", "`", "'", ".", ",", "...", "!", "?", ";", ":", "%"),
    *("(", ")", "[", "]", "-", " ", "  ", "\t", "caf\u00e9"),
)


@pytest.mark.parametrize(
    ("penn", "plain"),
    [
        ("I do n't like it .", "I don't like it."),
        ("DO N'T !", "DON'T!"),
        ("ca n't , wo n't", "can't, won't"),
        ("it 's we 're I 've he 'll they 'd I 'm .", "it's we're I've he'll they'd I'm."),
        ("it 's a film , not a -lrb- very -rrb- good one !", "it's a film, not a (very) good one!"),
        ("-LRB- 50 % -RRB- ; so : is it ?", "(50%); so: is it?"),
        ("They 're `` fine ''", 'They\'re " fine "'),
        ("caf\u00e9 's", "caf\u00e9's"),
    ],
)
def test_undone(penn: str, plain: str) -> None:
    assert detokenize_ptb(penn) == plain
    assert detokenize_ptb(plain) == plain


@pytest.mark.parametrize(
    "text",
    [
        "nothing to do",
        "I don't like it.",
        "so good :) ( really ) ...",
        "fine , really",
        "the '80s and 'scuse me",
        "the n'th time",
        "",
    ],
)
def test_what_is_not_of_the_style_stays(text: str) -> None:
    assert detokenize_ptb(text) == text


@given(st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_no_word_is_lost(text: str) -> None:
    def words(value: str) -> str:
        return "".join(filter(str.isalnum, value))

    brackets = text.lower().replace("-lrb-", "").replace("-rrb-", "")
    assert words(detokenize_ptb(text).lower()) == words(brackets)


def test_a_share_of_those_in_the_style_is_changed_and_always_the_same() -> None:
    texts = [f"do n't {number}" for number in range(200)] + ["fine , really"] * 10
    changed = detokenize_share(texts, share=0.5, seed=1)
    assert 70 < sum(text.startswith("don't") for text in changed) < 130
    assert changed[200:] == ("fine , really",) * 10


TEXT = "I do not like it, but the acting isn't bad."


@given(seed=st.integers(0, 10_000))
def test_a_slip_is_in_one_longer_word_and_spares_its_first_letter(seed: int) -> None:
    before = TEXT.split()
    after = add_typo(TEXT, random.Random(seed)).split()

    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) <= 1  # two letters that are alike can be swapped
    for old, new in changed:
        assert old in {"like", "acting", "isn't"} or len(old.strip(",.")) >= 4
        assert old[0] == new[0]
        assert abs(len(old) - len(new)) <= 1


@given(seed=st.integers(0, 1000))
def test_shouting_changes_case_alone(seed: int) -> None:
    assert change_case(TEXT, random.Random(seed)).lower() == TEXT.lower()


def test_apostrophes_go_or_curl() -> None:
    found = {drop_apostrophes("isn't", random.Random(seed)) for seed in range(20)}

    assert found == {"isnt", "isn\N{RIGHT SINGLE QUOTATION MARK}t"}


def test_forms_are_made_short_or_long() -> None:
    found = {
        contract("I do not think it isn't. Cannot.", random.Random(seed)) for seed in range(20)
    }

    assert found == {"I don't think it isn't. Can't.", "I do not think it is not. Cannot."}


@given(seed=st.integers(0, 1000))
def test_a_question_stays_one(seed: int) -> None:
    assert end("Is it?", random.Random(seed)) == "Is it?"
    assert end("It is...", random.Random(seed)).startswith("It is")


@given(seed=st.integers(0, 1000))
def test_a_link_stands_before_or_behind(seed: int) -> None:
    found = add_link(TEXT, random.Random(seed))

    assert found.startswith(f"{TEXT} ") or found.endswith(f" {TEXT}")
    (extra,) = set(found.replace(TEXT, "").split())
    assert extra.startswith(("https://", "@", "#"))


TEXTS = ["Anna went to Oslo, and it was superb.", "why?", "The plot drags; the cast shines!"]


def test_a_vowel_is_drawn_out() -> None:
    assert elongate("a film", random.Random(0)) in {"a fiiilm", "a fiiiilm", "a fiiiiilm"}
    assert elongate("so so", random.Random(0)) == "so so"


def test_marks_go_or_double_but_questions_stay_questions() -> None:
    assert {drop_marks("Well, is it? Yes.", random.Random(seed)) for seed in range(9)} == {
        "Well is it? Yes",
        "Well,, is it? Yes..",
    }
    assert drop_marks("3.5 of 5", random.Random(0)) == "3.5 of 5"


def test_an_emoji_without_sentiment_is_added() -> None:
    before, _, emoji = add_emoji("It ran.", random.Random(1)).rpartition(" ")

    assert before == "It ran."
    assert len(emoji) == 1
    assert not emoji.isalnum()


@pytest.mark.parametrize("seed", range(5))
def test_names_are_swapped_alike(seed: int) -> None:
    swapped = swap_names("Priya met Priya in Paris, said Parisa.", random.Random(seed))

    found = re.fullmatch(r"(\w+) met (\w+) in ([\w ]+), said (\w+)\.", swapped)
    assert found is not None
    assert found[1] == found[2] == found[4]
    assert found[1] in GIVEN_NAMES
    assert found[3] in PLACES


def test_every_text_is_perturbed() -> None:
    texts = TEXTS * 20

    perturbed = perturb_all(texts, seed=3)

    assert sum(one != other for one, other in zip(perturbed, texts, strict=True)) > 40


@pytest.mark.parametrize("change", [partial(detokenize_share, share=0.5), perturb_all])
def test_only_the_seed_decides(change: Callable[..., tuple[str, ...]]) -> None:
    texts = ["I do n't like it , really"] * 100

    assert change(texts, seed=1) == change(texts, seed=1) != change(texts, seed=2)


@given(st.text(), st.integers(0, 2**32))
def test_any_text_can_be_perturbed(text: str, seed: int) -> None:
    assert len(perturb_all([text], seed=seed)) == 1
