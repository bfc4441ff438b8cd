"""From tokens to words: texts with their offsets, groups, and sums over them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenization.tokenizer import Token, Tokenizer
from model.tokenization.words import Words, group_words, sum_words
from tests.builders import tiny_tokenizer

LONG = tiny_tokenizer(max_length=100_000)
CLS = Token("[CLS]", 0, 0, True, None)
SEP = Token("[SEP]", 0, 0, True, None)


def words_of(text: str, tokenizer: Tokenizer = LONG, **options: str) -> Words:
    encoding = tokenizer.encode(text, with_tokens=True, **options)  # type: ignore[arg-type]
    assert encoding.text == text
    assert encoding.tokens is not None
    return group_words(encoding.text, encoding.tokens)


def test_a_word_is_its_span_as_it_was_written() -> None:
    assert words_of("The plots, very LOVED!") == Words(
        (
            CLS,
            Token("The", 0, 3, False, 0),
            Token("plots,", 4, 10, False, 1),
            Token("very", 11, 15, False, 2),
            Token("LOVED!", 16, 22, False, 3),
            SEP,
        ),
        ((0,), (1,), (2, 3, 4), (5,), (6, 7, 8), (9,)),
    )


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [("right", [("good,", 0), ("fu", 6)]), ("left", [("xy", 8), ("film", 11)])],
)
def test_a_word_that_was_cut_counts_as_far_as_it_was_read(
    truncation: str, expected: list[tuple[str, int]]
) -> None:
    short = Tokenizer(LONG._backend, max_length=6 if truncation == "right" else 5)

    words = words_of("good, fuxy film", short, truncation=truncation)

    assert [(token.text, token.start) for token in words.tokens[1:-1]] == expected


def test_special_tokens_stay_apart() -> None:
    padding = Token("[PAD]", 0, 0, True, None)

    words = group_words("good", [Token("good", 0, 4, False, 0), padding, padding])

    assert words.tokens == (Token("good", 0, 4, False, 0), padding, padding)
    assert words.groups == ((0,), (1,), (2,))


def test_spaces_within_tokens_are_no_part_of_a_word() -> None:
    tokens = [Token("_a", 0, 2, False, 0), Token("_", 2, 4, False, 1), Token("b_", 4, 6, False, 1)]

    words = group_words(" a  b ", tokens)

    assert words.tokens == (Token("a", 1, 2, False, 0), Token("b", 4, 5, False, 1))
    assert words.groups == ((0,), (1, 2))


# Not U+001C, which is space in Python and at times part of an unknown token.
@given(st.text(st.sampled_from("ab .,\xa0\u200b\u3000\u0301é中🎬"), min_size=1))
def test_words_are_runs_of_characters_that_are_not_space(text: str) -> None:
    encoding = LONG.encode(text, with_tokens=True)
    assert encoding.tokens is not None
    words = group_words(text, encoding.tokens)

    assert [at for group in words.groups for at in group] == list(range(len(encoding.tokens)))
    runs = [match.span() for match in re.finditer(r"\S+", text)]
    for token in words.tokens:
        if token.word is not None:
            assert token.text == text[token.start : token.end] != ""
            assert runs[token.word][0] <= token.start
            assert token.end <= runs[token.word][1]
    seen = [token.word for token in words.tokens if token.word is not None]
    assert seen == sorted(set(seen))


def test_sums_over_words() -> None:
    words = words_of("good, film")  # [CLS] good , film [SEP]
    values = np.arange(10.0, dtype=np.float32).reshape(2, 5)

    sums = sum_words(values, words)

    assert sums.dtype == np.float32
    assert sums.tolist() == [[0, 3, 3, 4], [5, 13, 8, 9]]
    assert sum_words(values.T, words, axis=0).tolist() == sums.T.tolist()
