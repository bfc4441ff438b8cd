"""Truncation, offsets and words of tokens, over all of Unicode."""

import re
import unicodedata
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from model.errors import InputError, TextTooLongError
from model.tokenization.tokenizer import Tokenizer, check_text
from model.tokenization.wordpiece import wordpiece_tokenizer
from model.tokenization.words import group_words, sum_words
from model.types import Token, Truncation, Words
from model.validation import checked_text
from tests.builders import VOCABULARY, tiny_tokenizer
from tests.matching import exactly

LONG = tiny_tokenizer(max_length=100_000)
TOKENIZER = tiny_tokenizer()
SHORT = tiny_tokenizer(max_length=9)
IDS = {token: index for index, token in enumerate(VOCABULARY)}
WORDS = "a an and bad boring but cast cold deep dull"
texts = st.text() | st.text(st.sampled_from("ab .,[]é中🎬\u0301\u3000\x1c"))


@given(text=texts, max_length=st.integers(3, 12))
def test_truncation_of_any_text(text: str, max_length: int) -> None:
    short = tiny_tokenizer(max_length=max_length)
    whole = LONG.encode(text).input_ids
    too_long = len(whole) > max_length
    right = short.encode(text, truncation="right")
    left = short.encode(text, truncation="left")

    assert right.truncated is left.truncated is too_long
    if too_long:
        assert right.input_ids == [*whole[: max_length - 1], whole[-1]]
        assert left.input_ids == [whole[0], *whole[1 - max_length :]]
        message = (
            f"the text has {len(whole)} tokens and the model reads at most {max_length}: shorten "
            "it, or set truncation to right or left"
        )
        with pytest.raises(TextTooLongError, match=exactly(message)):
            short.encode(text, truncation="error")
    else:
        assert right.input_ids == left.input_ids == whole
        assert short.encode(text, truncation="error").input_ids == whole


@given(
    items=st.lists(texts | st.none() | st.just("a\ud800"), max_size=3),
    times=st.sampled_from([1, 50]),
    truncation=st.sampled_from(["right", "left", "error"]),
)
@example(["good " * 500, "a", "", "." * 2048], 1, "right")
def test_many_are_encoded_as_each(items: list[object], times: int, truncation: Truncation) -> None:
    def each(item: object) -> object:
        try:
            return SHORT.encode(check_text(checked_text(item)), truncation=truncation)
        except (InputError, TypeError) as error:
            return type(error), str(error)

    found = SHORT.encode_many(items * times, truncation=truncation)
    said = [(type(one), str(one)) if isinstance(one, Exception) else one for one in found]
    assert said == list(map(each, items)) * times


def test_texts_are_encoded_together_as_far_as_that_takes_little_time() -> None:
    """Else a large request would keep the thread from all others for a tenth of a second."""
    calls: list[int] = []
    tokenizer = Tokenizer(SHORT._backend, max_length=8)

    def count(texts: list[str], **options: bool) -> object:
        calls.append(len(texts))
        return SHORT._backend.encode_batch_fast(texts, **options)

    tokenizer._backend = mock.Mock(wraps=SHORT._backend, encode_batch_fast=count)
    for length, together in ((1, 64), (2_048, 8)):
        calls.clear()
        assert len(list(tokenizer.encode_many(["a" * length] * 200))) == 200
        assert (max(calls), sum(calls)) == (together, 200)


def test_a_tokenizer_without_special_tokens() -> None:
    backend = tokenizers.Tokenizer(models.WordPiece(IDS, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = Tokenizer(backend, max_length=2)
    encoding = tokenizer.encode("a bad film", with_tokens=True)
    assert encoding.input_ids == [IDS["a"], IDS["bad"]]
    assert encoding.truncated is True
    assert encoding.tokens == (Token("a", 0, 1, False, 0), Token("bad", 2, 5, False, 1))


def test_a_token_that_begins_with_a_space_belongs_to_the_word_behind_it() -> None:
    vocabulary = {"[UNK]": 0, "a": 1, "Ġb": 2, "Ġ": 3}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoding = Tokenizer(backend, max_length=9).encode("a b ", with_tokens=True)
    assert encoding.tokens == (
        Token("a", 0, 1, False, 0),
        Token("Ġb", 1, 3, False, 1),
        Token("Ġ", 3, 4, False, 1),  # behind the last word
    )


def test_vocab_size_is_one_more_than_the_largest_id() -> None:
    assert TOKENIZER.vocab_size == len(VOCABULARY)
    assert Tokenizer(tokenizers.Tokenizer(models.BPE()), max_length=9).vocab_size == 0
    sparse = wordpiece_tokenizer({"[UNK]": 0, "[CLS]": 7, "[SEP]": 90}, path=Path("vocab.txt"))
    assert Tokenizer(sparse, max_length=9).vocab_size == 91


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # one code point outside the first plane is one character
        ("🎬 good", [("[UNK]", 0, 1, 0), ("good", 2, 6, 1)]),
        # an accent apart from its letter is dropped, and its place stays
        ("cafe\u0301 a", [*spans("cafe"), ("a", 6, 7, 1)]),
        # each CJK character is a token; without a space they are one word
        ("中文 good", [("[UNK]", 0, 1, 0), ("[UNK]", 1, 2, 0), ("good", 3, 7, 1)]),
        ("中good", [("[UNK]", 0, 1, 0), ("good", 1, 5, 0)]),
        # white space for Python, a dropped control for the tokenizer
        ("x \x1ca", [("x", 0, 1, 0), ("a", 3, 4, 1)]),
        # zero-width space: no white space for either, dropped by the tokenizer
        ("\u200b good", [("good", 2, 6, 1)]),
        ("x\u200ba", [("x", 0, 1, 0), ("##a", 2, 3, 0)]),
        # one letter that becomes two on lower-casing
        ("İ a", [("i", 0, 1, 0), ("a", 2, 3, 1)]),
        # visible, yet nothing of it is read
        ("\u0301", []),
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


@given(st.text() | odd_text)
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


def words_of(text: str, tokenizer: Tokenizer = LONG, **options: str) -> Words:
    encoding = tokenizer.encode(text, with_tokens=True, **options)  # type: ignore[arg-type]
    assert encoding.text == text
    assert encoding.tokens is not None
    return group_words(encoding.text, encoding.tokens)


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


@pytest.mark.parametrize(
    "text",
    [
        *("Le cafe\u0301 est bon", "fine cafe\u0301", "I \u2764\ufe0f it \u2764\ufe0f"),
        *("\u0e19\u0e49\u0e33\u0e14\u0e35 \u0e17\u0e35\u0e48", "bad\ufffd film\u200b\u200d\ufffd"),
        "\U0001f469\u200d\U0001f4bb ok \U0001f469\u200d\U0001f4bb\ufe0f",
    ],
)
def test_a_word_ends_where_its_white_space_begins(text: str) -> None:
    words = words_of(text).tokens[1:-1]
    assert [token.text for token in words] == text.split()
    assert [text[token.start : token.end] for token in words] == text.split()


def test_spaces_within_tokens_are_no_part_of_a_word() -> None:
    pad = Token("[PAD]", 0, 0, True, None)
    tokens = [Token("_a", 0, 2, False, 0), Token("_", 2, 4, False, 1), Token("b_", 4, 6, False, 1)]
    words = group_words(" a  b ", [*tokens, pad, pad])
    assert words.tokens == (Token("a", 1, 2, False, 0), Token("b", 4, 5, False, 1), pad, pad)
    assert words.groups == ((0,), (1, 2), (3,), (4,))


def test_sums_over_words() -> None:
    words = words_of("good, film")  # [CLS] good , film [SEP]
    values = np.arange(10.0, dtype=np.float32).reshape(2, 5)
    sums = sum_words(values, words)
    assert sums.dtype == np.float32
    assert sums.tolist() == [[0, 3, 3, 4], [5, 13, 8, 9]]
    assert sum_words(values.T, words, axis=0).tolist() == sums.T.tolist()
