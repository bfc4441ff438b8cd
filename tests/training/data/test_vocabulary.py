"""A vocabulary of the training texts' own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenization.tokenizer import Tokenizer
from model.types import Token
from training.data.vocabulary import (
    PAD_ID,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    train_tokenizer,
    train_word_tokenizer,
)

TEXTS = [
    "I do n't like the unlikely film",
    "I don't like films",
    "the caf\u00e9 was lovely, lovelier than the film",
] * 5


def vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    content: dict[str, int] = json.loads(tokenizer.to_json())["model"]["vocab"]
    return content


def test_special_tokens_come_first() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=16)
    assert [tokenizer.token_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert (PAD_ID, UNKNOWN_ID) == (0, 1)
    assert tokenizer.pad_token_id == 0
    assert tokenizer.max_length == 16
    assert tokenizer.encode("film").input_ids == [2, tokenizer.token_id("film"), 3]


def test_every_way_to_write_a_negation_reads_alike() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=16)
    ways = ["I don't like it", "I do n't like it", "i don\u2019t like it", "I DON'T like it"]
    first, *others = [tokenizer.encode(text, with_tokens=True) for text in ways]
    assert first.tokens is not None
    assert [token.text for token in first.tokens][1:6] == ["i", "do", "n", "'", "t"]
    for other, text in zip(others, ways[1:], strict=True):
        assert other.input_ids == first.input_ids
        assert other.tokens is not None
        quote = other.tokens[4]
        assert text[quote.start : quote.end] in {"'", "\u2019"}


def test_a_letter_that_comes_once_is_unknown() -> None:
    tokenizer = train_tokenizer([*TEXTS, "\u03a9"], vocab_size=120, max_length=16)
    assert tokenizer.encode("\u03a9").input_ids == [2, UNKNOWN_ID, 3]


def test_of_too_many_letters_the_most_frequent_are_kept() -> None:
    letters = [chr(0x4E00 + number) for number in range(100)]
    texts = ["".join(letters[number:]) for number in range(100)] * 2
    tokenizer = train_tokenizer(texts, vocab_size=100, max_length=16)
    found = {token for token in vocabulary(tokenizer) if token in letters}
    assert found == set(letters[-33:])
    assert tokenizer.vocab_size <= 100


@given(
    texts=st.lists(st.text(max_size=30), max_size=8),
    times=st.integers(1, 3),
    vocab_size=st.integers(100, 150),
)
def test_ids_are_dense_and_within_the_size(texts: list[str], times: int, vocab_size: int) -> None:
    tokenizer = train_tokenizer(texts * times, vocab_size=vocab_size, max_length=16)
    ids = vocabulary(tokenizer)
    assert sorted(ids.values()) == list(range(len(ids)))
    assert len(ids) <= vocab_size
    assert [ids[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]


def test_frequent_words_come_first_and_ties_go_by_unicode() -> None:
    tokenizer = train_word_tokenizer(
        ["Good, GOOD film!", "bad film - b2b", "zoo ÄON"], num_words=5, max_length=8
    )
    places = {word: tokenizer.token_id(word) for word in ("film", "good", "b2b", "bad", "zoo")}
    assert places == {"film": 1, "good": 2, "b2b": 3, "bad": 4, "zoo": 5}
    assert tokenizer.token_id("äon") is None
    assert (tokenizer.token_id("[PAD]"), tokenizer.token_id("[UNK]")) == (0, 6)
    assert tokenizer.vocab_size == 7


def test_everything_but_letters_and_digits_parts_words() -> None:
    tokenizer = train_word_tokenizer(["a b c 9"], num_words=10, max_length=8)
    encoding = tokenizer.encode("A-b_c'9 \N{THUMBS UP SIGN}x", with_tokens=True)
    assert encoding.tokens == (
        Token("a", 0, 1, False, 0),
        Token("b", 2, 3, False, 0),
        Token("c", 4, 5, False, 0),
        Token("9", 6, 7, False, 0),
        Token("[UNK]", 9, 10, False, 1),
    )
    assert encoding.input_ids == [2, 3, 4, 1, 5]


def test_special_tokens_typed_by_a_user_are_words() -> None:
    tokenizer = train_word_tokenizer(["pad unk"], num_words=10, max_length=8)
    assert tokenizer.encode("[PAD] [UNK]").input_ids == [1, 2]


def test_something_stands_for_a_text_without_words() -> None:
    tokenizer = train_word_tokenizer(["good"], num_words=10, max_length=8)
    encoding = tokenizer.encode("!?", with_tokens=True)
    assert encoding.input_ids == [2]
    assert encoding.tokens == (Token("[UNK]", 0, 0, True, None),)
    assert tokenizer.encode("!?").input_ids == [2]
    assert not encoding.truncated


def test_texts_are_padded_for_a_network_that_reads_padding() -> None:
    tokenizer = train_word_tokenizer(["good film"], num_words=10, max_length=4, padded_length=4)
    encoding = tokenizer.encode("good film", with_tokens=True)
    assert encoding.input_ids == [2, 1, 0, 0]
    assert encoding.tokens is not None
    assert encoding.tokens[2:] == (Token("[PAD]", 0, 0, True, None),) * 2
    long = tokenizer.encode("good good good film film", with_tokens=True)
    assert long.input_ids == [2, 2, 2, 1]
    assert long.truncated
    assert tokenizer.encode("...").input_ids == [3, 0, 0, 0]


@pytest.mark.parametrize("padded_length", [None, 6])
@given(text=st.text(max_size=40))
def test_offsets_lie_in_a_text_and_count_what_is_read(padded_length: int | None, text: str) -> None:
    tokenizer = train_word_tokenizer(
        ["a good film"], num_words=10, max_length=6, padded_length=padded_length
    )
    encoding = tokenizer.encode(text, with_tokens=True)
    assert encoding.tokens is not None
    assert len(encoding.tokens) == len(encoding.input_ids)
    assert 1 <= len(encoding.input_ids) <= 6
    assert encoding.input_ids == tokenizer.encode(text).input_ids
    words = text.split()
    for token in encoding.tokens:
        if not token.special:
            assert 0 <= token.start < token.end <= len(text)
            assert token.word is not None
            assert text[token.start : token.end] in words[token.word]
