"""Groups tokens into words, and sums numbers of tokens by word.

Legend: T tokens, W entries (words and single special tokens).
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.types import Token, Words

Number = TypeVar("Number", bound=np.floating[Any])
_NO_SPACE = re.compile(r"\S+")


def group_words(text: str, tokens: Sequence[Token]) -> Words:
    """Joins the tokens of each word; of a truncated word, the part that was read."""
    # A special token belongs to no word, so it is its own group.
    neighbours = groupby(
        range(len(tokens)), key=lambda at: -1 - at if tokens[at].special else tokens[at].word
    )
    groups = tuple(tuple(group) for _, group in neighbours)
    return Words(tuple(join_tokens(text, [tokens[at] for at in group]) for group in groups), groups)


def sum_words(values: NDArray[Number], words: Words, *, axis: int = -1) -> NDArray[Number]:
    """Sums over the tokens of each entry: T numbers along `axis` become W, of the same type."""
    starts = [group[0] for group in words.groups]
    sums: NDArray[Number] = np.add.reduceat(values, starts, axis=axis)
    return sums


def join_tokens(text: str, tokens: Sequence[Token]) -> Token:
    """Joins neighbours to one entry that has their characters, but no white space at its ends."""
    if tokens[0].special:
        return tokens[0]
    start = min(token.start for token in tokens)
    end = max(token.end for token in tokens)
    # Tokens of some tokenizers contain the space before their word.
    start += len(text[start:end]) - len(text[start:end].lstrip())
    word = text[start:end].rstrip()
    found = _NO_SPACE.match(text, start + len(word))
    rest = found[0] if found else ""
    # Tokenizers leave out accents and what is not seen. The rest of a word that was cut is longer.
    if all(unicodedata.category(each)[0] in "MC" for each in rest if each != "\ufffd"):
        word += rest
    return Token(word, start, start + len(word), special=False, word=tokens[0].word)
