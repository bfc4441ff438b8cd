"""Sentences of a text: spans that hold all of it, in the right places, of any text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import TextTooLongError
from model.tokenization.sentences import MAX_SENTENCES, find_sentences
from model.tokenization.tokenizer import is_blank
from model.types import Span
from tests.matching import exactly

ENDS = list("..??!!…。\n\n  \"'“”«»()[]{}")
ODD = list("\u0085\u2028\u200b\u200d\x1c\ud7ff\U0010ffff😀\r\u3000")
WORDS = ["Dr.", "e.g.", "U.S.", "R.", "A", "Mr. ", "http://a.b", "lol", "Film."]
texts = (st.text() | st.lists(st.sampled_from(ENDS + ODD + WORDS)).map("".join)).filter(
    lambda text: not is_blank(text)
)
MANY = 100_000


def split_sentences(text: str, *, max_sentences: int = MAX_SENTENCES) -> list[Span]:
    return [*filter(None, find_sentences(text, max_sentences=max_sentences))]


def sentences(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I loved it. The plot drags, though! Would I see it again? Yes.",
            ["I loved it.", "The plot drags, though!", "Would I see it again?", "Yes."],
        ),
        (
            "Dr. Smith vs. Mr. Jones Jr. went to the U.S. in Jan. 2020. It was great.",
            ["Dr. Smith vs. Mr. Jones Jr. went to the U.S. in Jan. 2020.", "It was great."],
        ),
        ("One line\nand its end\n\nAnother", ["One line\nand its end", "Another"]),
        # What cannot be seen belongs to a neighbour.
        (
            "\u200b\n\nA.\n\n\u200b\n\nB.\n\n\u200b\u200b ",
            ["\u200b\n\nA.", "\u200b\n\nB.\n\n\u200b\u200b"],
        ),
        ("  \u3000Good.\u00a0 Bad.\n", ["Good.", "Bad."]),
        (
            "e\u0301le\u0300ve. 👨\u200d👩\u200d👧 ok.",
            ["e\u0301le\u0300ve.", "👨\u200d👩\u200d👧 ok."],
        ),
    ],
)
def test_texts_of_many_kinds(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(text=texts)
@example(text=" R\u0085.")
@example(text="\u200b\n\nA.\n\n\u200b\n\nB.\n\n\u200b\u200b ")
@example(text="\ufeffGood. \u200e")
def test_spans_hold_all_that_is_not_white_space_once_and_in_order(text: str) -> None:
    spans = split_sentences(text)
    end = 0
    for span in spans:
        assert not text[end : span.start].strip()
        part = text[span.start : span.end]
        assert part == part.strip()
        assert not is_blank(part)
        end = span.end
    assert not text[end:].strip()
    assert spans


def test_where_a_block_ends_makes_no_difference() -> None:
    for length in range(1990, 2110):
        text = f"{'word ' * (length // 5)}{'x' * (length % 5)} end. Next one. {'More. ' * 700}Last"
        found = sentences(text)
        assert len(found) == 703
        assert found[1:3] == ["Next one.", "More."]
        assert found[-1] == "Last"


@pytest.mark.parametrize(
    "text",
    ["." * MANY, "a" * MANY, "word " * MANY, "«" * MANY, "?!" * MANY],
    ids=["dots", "letters", "words", "quotes", "marks"],
)
def test_a_text_without_the_end_of_a_sentence_is_one_whatever_its_length(text: str) -> None:
    assert split_sentences(text, max_sentences=1) == [Span(0, len(text.rstrip()))]


def test_more_sentences_than_allowed_are_refused_and_not_counted() -> None:
    assert len(split_sentences("Hi. " * 5, max_sentences=5)) == 5
    message = (
        "the text has more than 5 sentences, and may have at most 5: divide it, or ask for one "
        "answer of the whole text"
    )
    for count in (6, MANY):
        with pytest.raises(TextTooLongError, match=exactly(message)):
            split_sentences("Hi. " * count, max_sentences=5)
