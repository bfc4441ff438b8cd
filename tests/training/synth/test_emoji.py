"""Emoji that are read as words."""

import pytest

from tests.builders import tiny_tokenizer
from training.synth.emoji import _MEANINGS, read_emoji

READER = read_emoji(tiny_tokenizer(), max_length=32)


@pytest.mark.parametrize("word", _MEANINGS)
def test_each_is_one_character_of_one_meaning(word: str) -> None:
    others = "".join(characters for other, characters in _MEANINGS.items() if other != word)

    assert not set(_MEANINGS[word]) & set(others)
    assert len(set(_MEANINGS[word])) == len(_MEANINGS[word])


def test_they_stand_where_they_were_written() -> None:
    text = "good\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}film"

    encoding = READER.encode(text, with_tokens=True)

    assert encoding.tokens is not None
    assert [(token.text, token.start, token.end) for token in encoding.tokens[1:-1]] == [
        ("good", 0, 4),
        ("love", 4, 5),
        ("film", 6, 10),
    ]
    assert {token.word for token in encoding.tokens[1:-1]} == {0}


def test_other_texts_are_read_as_before() -> None:
    text = "A good, \N{UNICORN FACE} film; caf\u00e9!"

    assert READER.encode(text) == tiny_tokenizer().encode(text)


def test_it_survives_the_file() -> None:
    again = read_emoji(READER, max_length=32)

    assert again.encode("\N{THUMBS UP SIGN}") == READER.encode("good")
