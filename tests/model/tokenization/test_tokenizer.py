"""Truncation, special tokens and options of the tokenizer."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from model.errors import TextTooLongError
from model.tokenization.tokenizer import Token, Tokenizer, Truncation
from model.tokenization.wordpiece import wordpiece_tokenizer
from tests.builders import VOCABULARY, tiny_tokenizer
from tests.matching import exactly

LONG = tiny_tokenizer(max_length=100_000)
TOKENIZER = tiny_tokenizer()
IDS = {token: index for index, token in enumerate(VOCABULARY)}
WORDS = "a an and bad boring but cast cold deep dull"
WORD_IDS = [IDS[word] for word in WORDS.split()]
texts = st.text() | st.text(st.sampled_from("ab .,[]é中🎬\u0301\u3000\x1c"))


@pytest.mark.parametrize("max_length", [3, 7, 11, 12, 13])
@pytest.mark.parametrize("truncation", ["right", "left"])
def test_truncation_keeps_one_end(max_length: int, truncation: Truncation) -> None:
    encoding = tiny_tokenizer(max_length=max_length).encode(
        WORDS, truncation=truncation, with_tokens=True
    )

    room = min(10, max_length - 2)
    kept = WORD_IDS[-room:] if truncation == "left" else WORD_IDS[:room]
    assert encoding.input_ids == [IDS["[CLS]"], *kept, IDS["[SEP]"]]
    assert encoding.truncated is (max_length < 12)
    assert encoding.tokens is not None
    words = [token.word for token in encoding.tokens[1:-1]]
    assert words == (list(range(10 - room, 10)) if truncation == "left" else list(range(room)))
    assert [WORDS[token.start : token.end] for token in encoding.tokens[1:-1]] == [
        VOCABULARY[token_id] for token_id in kept
    ]


@pytest.mark.parametrize("max_length", [3, 11])
def test_a_text_too_long_is_refused_with_both_counts(max_length: int) -> None:
    message = (
        f"the text has 12 tokens and the model reads at most {max_length}: shorten it, or set "
        "truncation to right or left"
    )

    with pytest.raises(TextTooLongError, match=exactly(message)) as caught:
        tiny_tokenizer(max_length=max_length).encode(WORDS, truncation="error")
    assert (caught.value.token_count, caught.value.max_length) == (12, max_length)


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
        with pytest.raises(TextTooLongError) as caught:
            short.encode(text, truncation="error")
        assert caught.value.token_count == len(whole)
    else:
        assert right.input_ids == left.input_ids == whole
        assert short.encode(text, truncation="error").input_ids == whole


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
    sparse = wordpiece_tokenizer({"[UNK]": 0, "[CLS]": 7, "[SEP]": 90}, path=Path("vocab.txt"))
    assert Tokenizer(sparse, max_length=9).vocab_size == 91


def test_the_id_of_a_token() -> None:
    assert TOKENIZER.token_id("superb") == IDS["superb"]
    assert TOKENIZER.token_id("absent") is None


def test_an_empty_vocabulary_has_no_ids() -> None:
    assert Tokenizer(tokenizers.Tokenizer(models.BPE()), max_length=9).vocab_size == 0


def test_special_tokens_by_role() -> None:
    assert TOKENIZER.special_tokens() == {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    few = wordpiece_tokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, path=Path("vocab.txt"))
    assert Tokenizer(few, max_length=9).special_tokens() == {
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
