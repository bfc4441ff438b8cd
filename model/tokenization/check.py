"""Refuses strings that no model can classify, and names the columns that hold texts."""

import re
import unicodedata

from model.errors import BlankTextError, InvalidTextError

#: names that columns of texts usually have
TEXT_COLUMNS = ("sentence", "text", "review", "content")

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Nearly every text has a visible character among its first ones.
_CHECKED_FIRST = 64


def check_text(text: str) -> None:
    """Refuses a blank text and a text that is not valid Unicode.

    Raises:
        InvalidTextError: the string contains a lone surrogate (U+D800 to U+DFFF).
        BlankTextError: the string has only white space (`str.isspace`), control (Cc) and format
            (Cf) characters.
    """
    if not text.isascii():
        surrogate = _LONE_SURROGATE.search(text)
        if surrogate is not None:
            raise InvalidTextError(surrogate.start())
    if is_blank(text):
        raise BlankTextError


def is_blank(text: str) -> bool:
    """Whether a text has nothing that can be read: only white space, controls and formats."""
    # In a long text without one there, each different character is checked once.
    return not (any(map(_is_visible, text[:_CHECKED_FIRST])) or any(map(_is_visible, set(text))))


def _is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf"}
