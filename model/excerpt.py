"""Truncates very long text before tokenizing, without changing the tokens that are kept.

A tokenizer cannot stop early and takes some 500 bytes a token. For a text of two million
characters it would build a gigabyte to keep 510 tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# A cut changes at most the tokens of a word of 100 characters; a longer word is one unknown token.
MARGIN = 128
_CHARACTERS_A_TOKEN = 16
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, at its beginning or its end.

    Args:
        start: index of its first character.
        stop: index after its last character.
        whole: whether it is the whole text.
    """

    start: int
    stop: int
    whole: bool


def excerpts(length: int, *, room: int, from_end: bool) -> Iterator[Excerpt]:
    """Yields growing parts of a text; the last one is the whole text.

    A part that gives `room` + `MARGIN` tokens is enough: its first `room` tokens, or its last
    with `from_end`, are those of the whole text.

    Args:
        length: characters of the text.
        room: tokens to keep.
        from_end: whether to keep the last tokens instead of the first.
    """
    size = _CHARACTERS_A_TOKEN * (room + MARGIN)
    while size < length:
        start = length - size if from_end else 0
        yield Excerpt(start, start + size, whole=False)
        size *= _GROWTH
    yield Excerpt(0, length, whole=True)
