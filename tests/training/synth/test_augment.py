"""Changes to training texts that leave their sentiment alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.synth.augment import undo_penn, undo_penn_in_share

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
    assert undo_penn(penn) == plain
    assert undo_penn(plain) == plain


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
    assert undo_penn(text) == text


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join)))
def test_undone_twice_is_undone_once(text: str) -> None:
    once = undo_penn(text)
    assert undo_penn(once) == once


@given(st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_no_word_is_lost(text: str) -> None:
    def words(value: str) -> str:
        return "".join(filter(str.isalnum, value))

    brackets = text.lower().replace("-lrb-", "").replace("-rrb-", "")
    assert words(undo_penn(text).lower()) == words(brackets)


def test_a_share_of_those_in_the_style_is_changed_and_always_the_same() -> None:
    texts = [f"do n't {number}" for number in range(200)] + ["fine , really"] * 10
    changed = undo_penn_in_share(texts, share=0.5, seed=1)
    assert changed == undo_penn_in_share(texts, share=0.5, seed=1)
    assert changed != undo_penn_in_share(texts, share=0.5, seed=2)
    assert 70 < sum(text.startswith("don't") for text in changed) < 130
    assert changed[200:] == ("fine , really",) * 10


def test_none_and_all() -> None:
    texts = [f"do n't {number}" for number in range(9)]
    assert undo_penn_in_share(texts, share=0.0, seed=1) == tuple(texts)
    assert undo_penn_in_share(texts, share=1.0, seed=1) == tuple(map(undo_penn, texts))
