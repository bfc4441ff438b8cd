"""Emoji that are read as words."""

from recipes.emoji import _MEANINGS, read_emoji
from tests.builders import tiny_tokenizer

READER = read_emoji(tiny_tokenizer(), max_length=32)


def test_each_is_one_character_of_one_meaning() -> None:
    every = "".join(_MEANINGS.values())
    assert len(set(every)) == len(every)


def test_they_stand_where_they_were_written_and_other_texts_are_read_as_before() -> None:
    text = "good\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16}film"
    encoding = READER.encode(text, with_tokens=True)
    assert encoding.tokens is not None
    assert [(token.text, token.start, token.end) for token in encoding.tokens[1:-1]] == [
        ("good", 0, 4),
        ("love", 4, 5),
        ("film", 6, 10),
    ]
    other = "A good, \N{UNICORN FACE} film; caf\u00e9!"
    assert READER.encode(other) == tiny_tokenizer().encode(other)


def test_one_that_reads_them_is_left_as_it_is() -> None:
    assert read_emoji(READER, max_length=32).to_json() == READER.to_json()
