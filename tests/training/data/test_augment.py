"""Changes of texts that leave their sentiment alone, and names in the place of masks."""

import random
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data import augment

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
        ("it 's we 're I 've he 'll they 'd I 'm .", "it's we're I've he'll they'd I'm."),
        ("it 's a film , not a -lrb- very -rrb- good one !", "it's a film, not a (very) good one!"),
        ("-LRB- 50 % -RRB- ; so : is it ?", "(50%); so: is it?"),
        ("They 're `` fine ''", 'They\'re " fine "'),
    ],
)
def test_undone(penn: str, plain: str) -> None:
    assert augment.detokenize_ptb(penn) == plain
    assert augment.detokenize_ptb(plain) == plain


@pytest.mark.parametrize(
    "text",
    ["so good :) ( really ) ...", "fine , really", "the '80s and 'scuse me", "the n'th time", ""],
)
def test_what_is_not_of_the_style_stays(text: str) -> None:
    assert augment.detokenize_ptb(text) == text


@given(st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_no_word_is_lost(text: str) -> None:
    def words(value: str) -> str:
        return "".join(filter(str.isalnum, value))

    brackets = text.lower().replace("-lrb-", "").replace("-rrb-", "")
    assert words(augment.detokenize_ptb(text).lower()) == words(brackets)


def test_a_share_of_those_in_the_style_is_changed_and_always_the_same() -> None:
    texts = [f"do n't {number}" for number in range(200)] + ["fine , really"] * 10
    changed = augment.detokenize_share(texts, share=0.5, seed=1)
    assert 70 < sum(text.startswith("don't") for text in changed) < 130
    assert changed[200:] == ("fine , really",) * 10


TEXT = "I do not like it, but the acting isn't bad."


@given(seed=st.integers(0, 10_000))
def test_a_slip_is_in_one_longer_word_and_spares_its_first_letter(seed: int) -> None:
    before = TEXT.split()
    after = augment.add_typo(TEXT, random.Random(seed)).split()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) <= 1  # two letters that are alike can be swapped
    for old, new in changed:
        assert old in {"like", "acting", "isn't"} or len(old.strip(",.")) >= 4
        assert old[0] == new[0]
        assert abs(len(old) - len(new)) <= 1


@pytest.mark.parametrize(
    ("change", "text", "found"),
    [
        (augment.change_case, "Not Bad", {"NOT BAD", "not bad", "Not Bad"}),
        (augment.drop_apostrophes, "isn't", {"isnt", "isn\N{RIGHT SINGLE QUOTATION MARK}t"}),
        (
            augment.contract,
            "I do not think it isn't. Cannot.",
            {"I don't think it isn't. Can't.", "I do not think it is not. Cannot."},
        ),
        (augment.end, "Is it?", {"Is it?"}),
        (augment.elongate, "a film", {"a fiiilm", "a fiiiilm", "a fiiiiilm"}),
        (augment.elongate, "so so", {"so so"}),
        (augment.drop_marks, "Well, is it? Yes.", {"Well is it? Yes", "Well,, is it? Yes.."}),
        (augment.drop_marks, "3.5 of 5", {"3.5 of 5"}),
    ],
)
def test_a_change_makes_nothing_but_these(
    change: Callable[[str, random.Random], str], text: str, found: set[str]
) -> None:
    assert {change(text, random.Random(seed)) for seed in range(40)} == found


@given(seed=st.integers(0, 1000))
def test_a_link_or_an_emoji_stands_before_or_behind(seed: int) -> None:
    found = augment.add_link(TEXT, random.Random(seed))
    assert found.startswith(f"{TEXT} ") or found.endswith(f" {TEXT}")
    (extra,) = set(found.replace(TEXT, "").split())
    assert extra.startswith(("https://", "@", "#"))
    before, _, emoji = augment.add_emoji("It ran.", random.Random(seed)).rpartition(" ")
    assert (before, len(emoji), emoji.isalnum()) == ("It ran.", 1, False)


@pytest.mark.parametrize("seed", range(5))
def test_names_are_swapped_alike(seed: int) -> None:
    swapped = augment.swap_names("Priya met Priya in Paris, said Parisa.", random.Random(seed))
    found = re.fullmatch(r"(\w+) met (\w+) in ([\w ]+), said (\w+)\.", swapped)
    assert found is not None
    assert found[1] == found[2] == found[4]
    assert found[1] in augment.GIVEN_NAMES
    assert found[3] in augment.PLACES


@pytest.mark.parametrize(
    "change", [partial(augment.detokenize_share, share=0.5), augment.perturb_all]
)
def test_only_the_seed_decides(change: Callable[..., tuple[str, ...]]) -> None:
    texts = ["I do n't like it , really"] * 100
    assert change(texts, seed=1) == change(texts, seed=1) != change(texts, seed=2)


@given(st.text(), st.integers(0, 2**32))
def test_any_text_can_be_perturbed(text: str, seed: int) -> None:
    assert len(augment.perturb_all([text], seed=seed)) == 1
