"""Offsets, words and what a user types, over all of Unicode."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.tokenization.tokenizer import Token, Tokenizer
from tests.builders import SPECIALS, VOCABULARY, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
LONG = tiny_tokenizer(max_length=100_000)
IDS = {token: index for index, token in enumerate(VOCABULARY)}
any_text = st.text()  # no surrogates
# Characters that some count as white space, or drop, and others do not.
ODD = "\x00\x1c\x1d\x1e\x1f\x85\xa0\xad\u0301\u200b\u200d\u200f\u202e\u2028\u2029\u3000\ufeff\ufffd"
odd_text = st.text(st.sampled_from("ab .,[]" + ODD + "é中🎬"))


def tokens_of(text: str, tokenizer: Tokenizer = LONG) -> tuple[Token, ...]:
    """Without `[CLS]` and `[SEP]`."""
    tokens = tokenizer.encode(text, with_tokens=True).tokens
    assert tokens is not None
    return tokens[1:-1]


def spans(text: str) -> list[tuple[str, int, int, int | None]]:
    return [(token.text, token.start, token.end, token.word) for token in tokens_of(text)]


def test_tokens_are_given_only_if_asked_for() -> None:
    assert TOKENIZER.encode("good").tokens is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # one code point outside the first plane is one character
        ("🎬 good", [("[UNK]", 0, 1, 0), ("good", 2, 6, 1)]),
        # a family of five code points
        ("👩‍👩‍👧 good", [("[UNK]", 0, 5, 0), ("good", 6, 10, 1)]),
        # an accent apart from its letter is dropped, and its place stays
        ("cafe\u0301 a", [*spans("cafe"), ("a", 6, 7, 1)]),
        ("café a", [*spans("cafe"), ("a", 5, 6, 1)]),
        # each CJK character is a token; without a space they are one word
        ("中文 good", [("[UNK]", 0, 1, 0), ("[UNK]", 1, 2, 0), ("good", 3, 7, 1)]),
        ("中good", [("[UNK]", 0, 1, 0), ("good", 1, 5, 0)]),
        # control characters are dropped inside a word
        ("go\x00od", [("good", 0, 5, 0)]),
        # white space for Python, a dropped control for the tokenizer
        ("x \x1ca", [("x", 0, 1, 0), ("a", 3, 4, 1)]),
        ("x\x1ca", [("x", 0, 1, 0), ("##a", 2, 3, 1)]),
        ("\x85a", [("a", 1, 2, 0)]),
        ("a\x85b", [("a", 0, 1, 0), ("##b", 2, 3, 1)]),
        # zero-width space: no white space for either, dropped by the tokenizer
        ("\u200b good", [("good", 2, 6, 1)]),
        ("x\u200ba", [("x", 0, 1, 0), ("##a", 2, 3, 0)]),
        # ideographic space: white space for both
        ("a\u3000b", [("a", 0, 1, 0), ("b", 2, 3, 1)]),
        ("a\u00a0b", [("a", 0, 1, 0), ("b", 2, 3, 1)]),
        # right to left, in logical order
        ("שלום a", [("[UNK]", 0, 4, 0), ("a", 5, 6, 1)]),
        ("\u202ea b", [("a", 1, 2, 0), ("b", 3, 4, 1)]),
        # one letter that becomes two on lower-casing
        ("İ a", [("i", 0, 1, 0), ("a", 2, 3, 1)]),
        ("  a\n\n b ", [("a", 2, 3, 0), ("b", 6, 7, 1)]),
        # visible, yet nothing of it is read
        ("\u0301", []),
        ("\ufffd", []),
        ("a.b", [("a", 0, 1, 0), (".", 1, 2, 0), ("b", 2, 3, 0)]),
        ("x" * 101, [("[UNK]", 0, 101, 0)]),
    ],
)
def test_offsets_and_words(text: str, expected: list[tuple[str, int, int, int]]) -> None:
    assert spans(text) == expected


def plain(text: str) -> str:
    """Lower case, without accents, as the vocabulary spells."""
    decomposed = unicodedata.normalize("NFD", text)
    bare = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
    return bare.lower()


@given(any_text | odd_text)
@example("a\x1c")
@example("\u3000\u200ba\x85 İ🎬")
def test_each_token_points_at_its_text(text: str) -> None:
    runs = [match.span() for match in re.finditer(r"\S+", text)]
    previous = 0
    for token in tokens_of(text):
        assert 0 <= token.start < token.end <= len(text)
        assert token.start >= previous
        previous = token.start
        assert not token.special
        assert token.word is not None
        start, end = runs[token.word]
        assert start <= token.start < end
        piece = token.text.removeprefix("##")
        if token.text != "[UNK]" and text.isascii():
            kept = re.sub(r"[\x00-\x1f\x7f]", "", text[token.start : token.end])
            assert plain(kept) == piece


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cn", "Co", "Cs")), max_size=40))
def test_nothing_that_can_be_seen_is_left_out(text: str) -> None:
    """Every character is in a token, but for spaces, accents and the replacement character."""
    covered = {place for token in tokens_of(text) for place in range(token.start, token.end)}

    for place, character in enumerate(text):
        if character.isspace() or character == "\ufffd" or plain(character) == "":
            continue
        assert place in covered


@given(st.lists(st.sampled_from([*SPECIALS, "[", "]", "CLS", "sep", " ", "good"])))
def test_special_tokens_typed_by_a_user_are_text(parts: list[str]) -> None:
    text = "".join(parts)
    inner = tokens_of(text)

    assert not {token.text for token in inner} & {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}
    assert all(not token.special for token in inner)
    ids = LONG.encode(text).input_ids
    assert (ids[0], ids[-1]) == (IDS["[CLS]"], IDS["[SEP]"])
    assert set(ids[1:-1]).isdisjoint({IDS["[CLS]"], IDS["[SEP]"], IDS["[PAD]"], IDS["[MASK]"]})


@given(any_text | odd_text)
def test_tokens_change_nothing_but_are_there(text: str) -> None:
    without, with_tokens = TOKENIZER.encode(text), TOKENIZER.encode(text, with_tokens=True)

    assert with_tokens.input_ids == without.input_ids
    assert with_tokens.truncated == without.truncated
    assert with_tokens.tokens is not None
    assert len(with_tokens.tokens) == len(with_tokens.input_ids)
