"""What counts as a text: from a string that anybody sent to one that can be tokenized."""

import re
import unicodedata

from model.errors import BlankTextError, InvalidTextError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Nearly every text shows by then that it is not blank.
_SOON = 64


def check_text(text: str) -> None:
    """Refuses what no model can classify.

    Args:
        text: any Python string.

    Raises:
        InvalidTextError: the string holds a lone surrogate (U+D800 to U+DFFF).
        BlankTextError: nothing is left without white space (`str.isspace`), control (Cc) and
            format (Cf) characters.
    """
    if not text.isascii():
        surrogate = _LONE_SURROGATE.search(text)
        if surrogate is not None:
            raise InvalidTextError(surrogate.start())
    # Of a long one that does not, each different character is looked at once.
    if not (any(map(_is_visible, text[:_SOON])) or any(map(_is_visible, set(text)))):
        raise BlankTextError


def _is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf"}
