"""Cuts the sentences of one call into requests that the service takes, and joins their answers.

Both clients send the portions in their own way: one after the other, or some at a time.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar, Unpack

from headlight_client.answers import FieldError, ItemError, Prediction, Problem
from headlight_client.calls import Call, OnError, PredictOptions, as_json, predict, texts_of
from headlight_client.errors import FailedPart, HeadlightError, InvalidRequestError, ProblemError
from headlight_client.predictions import Predictions
from headlight_client.tables import index_of

P = TypeVar("P", bound=Problem)

_INDEX = re.compile(r"\Asentences\[([0-9]{1,9})\]")
_LIST = ("body", "sentences")
_TOO_LARGE, _TOO_MUCH_WORK = 413, "too-much-work"
# A byte is a token at most, so most requests leave room for others. It is read twice at most where
# windows overlap, as a part of the text and of a sentence, which has two special tokens of its own.
_TOKENS_A_BYTE = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a service takes in one request; by default, with its default settings.

    `work_tokens` counts the tokens of windows and sentences too.
    """

    sentences: int = 256
    body_bytes: int = 2_000_000
    work_tokens: int = 262_144


def limits_of(settings: Mapping[str, float | str | None]) -> Limits:
    """Reads the limits from `GET /model`; an older service reports none, or those of its queue."""
    known: dict[str, object] = {
        each.name: settings.get(f"max_{each.name}") for each in fields(Limits)
    }
    known["work_tokens"] = known["work_tokens"] or settings.get("max_queue_tokens")
    return Limits(
        **{name: most for name, most in known.items() if isinstance(most, int) and most > 0}
    )


class Portions:
    """The sentences of one call, with their answers so far.

    Args:
        sentences: any number.
        on_error: as in `predict`, like the other options.

    Raises:
        TypeError: `sentences` is one string or a table.
    """

    def __init__(
        self,
        sentences: Sequence[str | None],
        *,
        on_error: OnError = "request",
        **options: Unpack[PredictOptions],
    ) -> None:
        self._texts = texts_of(sentences)
        self._index = index_of(sentences)
        self._on_error: OnError = on_error
        self._options = options
        # Each request reads these again.
        if (head_mask := options.get("head_mask")) is not None:
            options["head_mask"] = list(head_mask)
        if (omit := options.get("omit")) is not None:
            options["omit"] = list(omit)
        self._answers: list[Prediction | ItemError | None] = [None] * len(self._texts)
        self._answered = 0
        self._several = False
        self._most = sys.maxsize  # bytes of a portion; less since one was too much work
        self._may_ask = True
        self._too_much: HeadlightError | None = None

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def answered(self) -> int:
        """How many sentences have an answer."""
        return self._answered

    def fit(self, limits: Limits) -> bool:
        """Whether one request takes all of them."""
        return len(list(self._cut(limits))) <= 1

    def cut(self, limits: Limits, *, at_once: int = 1) -> list[range]:
        """Cuts what has no answer yet into portions, in order.

        If there are several, `at_once` of them together are not too much work.
        """
        portions = list(self._cut(limits))
        if len(portions) > 1 < at_once:
            shared = replace(limits, work_tokens=limits.work_tokens // at_once)
            portions = list(self._cut(shared))
        self._several |= len(portions) > 1
        return portions

    def _cut(self, limits: Limits) -> Iterator[range]:
        around = self._bytes(range(0)) - 1  # the first text has no comma
        most_bytes = self._most_bytes(limits)
        start = size = 0
        for index, text in enumerate(self._texts):
            if self._answers[index] is not None:
                if index > start:
                    yield range(start, index)
                start, size = index + 1, 0
                continue
            added = len(as_json(text)) + 1  # and a comma
            is_full = index - start >= limits.sentences or around + size + added > most_bytes
            if index > start and is_full:
                yield range(start, index)
                start, size = index, 0
            size += added
        if start < len(self._texts):
            yield range(start, len(self._texts))

    def _most_bytes(self, limits: Limits) -> int:
        """The most bytes of a portion, so that its tokens are not too many either."""
        most = min(limits.body_bytes, self._most)
        is_read_once = (
            self._options.get("truncation") != "window"
            and self._options.get("granularity") != "sentence"
        )
        if is_read_once:
            return min(most, limits.work_tokens)
        return min(most, limits.work_tokens // _TOKENS_A_BYTE)

    def _bytes(self, portion: range) -> int:
        return len(self.call(portion).body or b"")

    def call(self, portion: range) -> Call[list[Prediction | ItemError]]:
        """The request of a portion."""
        texts = self._texts[portion.start : portion.stop]
        return predict(texts, on_error=self._on_error, **self._options)

    def take(self, portion: range, answers: Sequence[Prediction | ItemError]) -> None:
        """Keeps the answers of a portion; an index in an error becomes one of all sentences."""
        for index, answer in zip(portion, answers, strict=True):
            if isinstance(answer, ItemError):
                self._answers[index] = _moved(answer, portion.start)
            else:
                self._answers[index] = answer
        self._answered += len(answers)

    def fail(self, portion: range, error: HeadlightError) -> None:
        """Keeps the error as the answer of a sentence that is too large, or raises it.

        Raises:
            HeadlightError: the error itself. If there are several portions, its `part` shows which
                one failed and what is answered.
        """
        if len(portion) > 1 and isinstance(error, ProblemError) and error.type == _TOO_MUCH_WORK:
            self._too_much = error
            half = (self._bytes(portion) + self._bytes(range(0))) // 2
            self._most = min(self._most, half, (error.fits or {}).get("tokens", half))
        is_item = len(portion) == 1 and self._on_error == "item"
        if is_item and isinstance(error, InvalidRequestError) and error.status == _TOO_LARGE:
            item = {name: getattr(error.problem, name) for name in Problem.__slots__}
            self._answers[portion.start] = ItemError(**item)
            self._answered += 1
            return
        if self._several:
            if isinstance(error, ProblemError):
                error.replace_problem(_moved(error.problem, portion.start))
            error.part = FailedPart(portion.start, portion.stop, len(self), tuple(self._answers))
        raise error

    def may_divide(self, error: InvalidRequestError) -> bool:
        """Whether smaller portions may be taken where one was rejected.

        Those of too much work get smaller each time. For too many sentences or bytes, the limits of
        the service are to be asked, once.
        """
        if error is self._too_much:
            return True
        counted = [each.loc for each in error.errors] == [_LIST]
        may_ask, self._may_ask = self._may_ask, False
        return may_ask and len(self) > 1 and (error.status == _TOO_LARGE or counted)

    def result(self) -> Predictions[Prediction | ItemError]:
        """All answers, in the order of the sentences."""
        answers = (answer for answer in self._answers if answer is not None)
        return Predictions(answers, index=self._index)


def _moved(problem: P, start: int) -> P:
    """Counts the sentences that a problem names from the first of all, not of its portion."""
    detail = _INDEX.sub(lambda match: f"sentences[{int(match[1]) + start}]", problem.detail)
    errors = tuple(_moved_error(error, start) for error in problem.errors)
    return replace(problem, detail=detail, errors=errors)


def _moved_error(error: FieldError, start: int) -> FieldError:
    index = error.loc[2] if len(error.loc) > 2 and error.loc[:2] == _LIST else None
    if not isinstance(index, int):
        return error
    return replace(error, loc=(*_LIST, index + start, *error.loc[3:]))
