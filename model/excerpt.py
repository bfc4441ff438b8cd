"""How much of a very long text is tokenized, so that what is kept of it is as of the whole.

A tokenizer cannot stop early and takes some 500 bytes a token: of a text of two million characters
it would build a gigabyte to keep 510 tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# Tokens that a cut can change: at most those of a word of 100 characters, a longer one is unknown.
MARGIN = 128
_CHARACTERS_A_TOKEN = 16
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, from one of its ends.

    Args:
        start: where it begins.
        stop: where it ends.
        whole: whether it is all of the text.
    """

    start: int
    stop: int
    whole: bool


def excerpts(length: int, *, room: int, from_end: bool) -> Iterator[Excerpt]:
    """Parts of a text, each larger than the one before, the whole as the last.

    One that gives `room` + `MARGIN` tokens is enough: those next to its end are as in the whole.

    Args:
        length: of the text, in characters.
        room: tokens that are kept of it.
        from_end: whether the last of them are kept, not the first.
    """
    size = _CHARACTERS_A_TOKEN * (room + MARGIN)
    while size < length:
        start = length - size if from_end else 0
        yield Excerpt(start, start + size, whole=False)
        size *= _GROWTH
    yield Excerpt(0, length, whole=True)
