"""Divides a text into its sentences, as spans of the text, which `sentencex` finds."""

import re
from collections.abc import Iterator

import sentencex

from model.errors import TextTooLongError, is_fault
from model.tokenization.tokenizer import is_blank
from model.types import Span

MAX_SENTENCES = 1024  # the most sentences of a text unless a setting says another number

_LANGUAGE = "en"
_BLOCK = 2048  # characters that are looked at in one call: a few milliseconds at worst
# By so many characters the reading gets on with each call, and so many it reads twice.
_LEAST, _AGAIN = _BLOCK // 2, _BLOCK // 8
# `sentencex` breaks on white space of several bytes behind a full stop. In a string of Python every
# character is one place, so this changes no offset.
_ODD_SPACE = re.compile(r"[^\S \t\n\r]")


def find_sentences(text: str, *, max_sentences: int = MAX_SENTENCES) -> Iterator[Span | None]:
    """Yields the sentences of a text that is not blank, at least one, and None after each block.

    Every character that is not white space is in one span. No span begins or ends with white
    space, and each has a character that a model can read. More than `max_sentences` are a
    TextTooLongError.
    """
    found = 0
    last: Span | None = None
    waiting: int | None = None  # begin of what cannot be seen: it belongs to the next sentence
    for ends in _pieces(text):
        if ends is None:
            yield None
            continue
        start, end = ends
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end -= len(piece) - len(piece.rstrip())
        if start >= end:
            continue
        begin = start if waiting is None else waiting
        if is_blank(text[start:end]):
            waiting = begin
            continue
        if last is not None:
            yield last
        waiting, last = None, Span(begin, end)
        found += 1
        if found > max_sentences:
            raise TextTooLongError(
                f"the text has more than {max_sentences} sentences, and may have at most "
                f"{max_sentences}: divide it, or ask for one answer of the whole text"
            )
    if last is not None:
        yield last if waiting is None else Span(last.start, len(text.rstrip()))


def _pieces(text: str) -> Iterator[tuple[int, int] | None]:
    """Yields where each sentence begins and ends, without gaps, and None for each block."""
    start = 0  # of the sentence
    at = judged = 0  # of the block, and of what no block has judged before
    while True:
        yield None
        block = _ODD_SPACE.sub(" ", text[at : at + _BLOCK])
        if at + _BLOCK < len(text):
            # It ends between two words, if it can.
            block = block[: max(block.rfind(space, _LEAST) for space in " \n") + 1] or block
        stop = at + len(block)
        for end in _ends(block):
            if at + end >= judged and at + end > start:
                yield start, at + end
                start = at + end
        if stop == len(text):
            break
        # The last sentence of a block may go on, so it is read again from its start. If it is long,
        # only its end is. So each call gets on.
        if start - at >= _LEAST:
            at = judged = start
        else:
            at, judged = stop - _AGAIN, stop
    yield start, len(text)


def _ends(block: str) -> list[int]:
    """Where the sentences of a block end, but for the last one."""
    try:
        boundaries = sentencex.get_sentence_boundaries(_LANGUAGE, block)
    except BaseException as error:
        if not is_fault(error):
            raise
        return []  # an odd text still has an answer, if not one for each sentence
    return [boundary["end_index"] for boundary in boundaries[:-1]]
