"""Which texts are refused, and that no message repeats them."""

import sys
import unicodedata
from contextlib import nullcontext

import pytest
from hypothesis import given
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


@pytest.mark.parametrize(
    "text", ["", "\t\r\n\x00\u0085", "\u00a0\u3000\u2028\u200b\ufeff\U000e0001"]
)
def test_blank_texts_are_refused(text: str) -> None:
    with pytest.raises(BlankTextError, match=exactly(BLANK)):
        check_text(text)


@given(before=st.just("  ") | st.text(), surrogate=st.integers(0xD800, 0xDFFF), after=st.text())
def test_a_lone_surrogate_is_refused_with_its_position(
    before: str, surrogate: int, after: str
) -> None:
    message = (
        f"the text is not valid Unicode: lone surrogate at position {len(before)}; write a whole "
        "surrogate pair or leave it out"
    )

    with pytest.raises(InputError, match=exactly(message)):
        check_text(before + chr(surrogate) + after)


@given(st.text(st.characters() | st.sampled_from(INVISIBLE)))
def test_any_other_text_is_accepted(text: str) -> None:
    valid = not any("\ud800" <= character <= "\udfff" for character in text)
    blank = not text.translate(dict.fromkeys(map(ord, INVISIBLE)))
    expectation = nullcontext() if valid and not blank else pytest.raises(InputError)

    with expectation:
        check_text(text)
