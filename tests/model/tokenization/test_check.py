"""Which texts are refused, and that no message repeats them."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import BlankTextError, InputError
from model.tokenization.tokenizer import check_text
from tests.matching import exactly

BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)
INVISIBLE = "".join(
    chr(code)
    for code in range(sys.maxunicode + 1)
    if chr(code).isspace() or unicodedata.category(chr(code)) in {"Cc", "Cf"}
)


LONE = (
    "the text is not valid Unicode: lone surrogate at position {}; write a whole surrogate pair or "
    "leave it out"
)


@given(st.text(st.characters() | st.sampled_from(INVISIBLE)))
@example("")
@example("\t\r\n\x00\u0085")
@example("\u00a0\u3000\u2028\u200b\ufeff\U000e0001")
@example("  \ud800")
@example("a\udfff ")
def test_blank_texts_and_lone_surrogates_are_refused_and_no_other_text(text: str) -> None:
    lone = next((at for at, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
    if lone is not None:
        with pytest.raises(InputError, match=exactly(LONE.format(lone))):
            check_text(text)
    elif not text.translate(dict.fromkeys(map(ord, INVISIBLE))):
        with pytest.raises(BlankTextError, match=exactly(BLANK)):
            check_text(text)
    else:
        check_text(text)
