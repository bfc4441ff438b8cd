"""Truncates very long text before tokenizing, without changing the tokens that are kept.

A tokenizer cannot stop early and takes some 500 bytes a token.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from model.errors import TextGrowsError

# A cut changes at most the tokens of a word of 100 characters; a longer word is one unknown token.
MARGIN = 128
_CHARACTERS_A_TOKEN = 16
_GROWTH = 4
# A part of so many characters is encoded at once, whatever it becomes: `reader` bounds that too.
_FREE = 16_384
_MOST_TIMES, MOST_GROWN = 4, 1_000_000


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, at its beginning or its end.

    Args:
        whole: whether it is the whole text.
    """

    start: int
    stop: int
    whole: bool


def excerpts(length: int, *, room: int, from_end: bool) -> Iterator[Excerpt]:
    """Yields growing parts of a text; the last one is the whole text.

    A part that gives `room` + `MARGIN` tokens is enough: its first `room` tokens, or its last
    with `from_end`, are those of the whole text.
    """
    size = _CHARACTERS_A_TOKEN * (room + MARGIN)
    while size < length:
        start = length - size if from_end else 0
        yield Excerpt(start, start + size, whole=False)
        size *= _GROWTH
    yield Excerpt(0, length, whole=True)


def check_growth(text: str, normalize: Callable[[str], str]) -> None:
    """Refuses a part of a text that becomes several times as long when it is normalised.

    It is normalised in small pieces, of which no two are kept.
    """
    if len(text) <= _FREE:
        return
    limit = max(MOST_GROWN, _MOST_TIMES * len(text))
    grown = 0
    for start in range(0, len(text), _FREE):
        grown += len(normalize(text[start : start + _FREE]))
        if grown > limit:
            raise TextGrowsError(len(text), limit)
