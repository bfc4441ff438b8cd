"""Cuts the sentences of one call into requests that the service takes, and joins their answers."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

from headlight_client.answers import FieldError, ItemError, Prediction, Problem
from headlight_client.calls import Call, as_json, predict, texts_of
from headlight_client.errors import FailedPart, HeadlightError, InvalidRequestError, ProblemError
from headlight_client.tables import Predictions, index_of

P = TypeVar("P", bound=Problem)

_INDEX = re.compile(r"\Asentences\[([0-9]{1,9})\]")
_LIST = ("body", "sentences")
_TOO_LARGE, _TOO_MUCH_WORK = 413, "too-much-work"
# A byte is a token at most, so most requests leave room for others. It is read twice at most where
# windows overlap, as a part of the text and of a sentence, which has two special tokens of its own.
_TOKENS_A_BYTE = 4
_MOST_LINES = 10  # of progress


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a service takes in one request; by default, with its default settings."""

    sentences: int = 256
    body_bytes: int = 2_000_000
    work_tokens: int = 262_144  # those of windows and sentences too


def limits_of(settings: Mapping[str, float | str | None]) -> Limits:
    """Reads the limits from `GET /model`; an older service reports none, or those of its queue."""
    known: dict[str, Any] = {each.name: settings.get(f"max_{each.name}") for each in fields(Limits)}
    known["work_tokens"] = known["work_tokens"] or settings.get("max_queue_tokens")
    return Limits(**{name: n for name, n in known.items() if isinstance(n, int) and n > 0})


class Portions:
    """The sentences of one call of `predict`, with their answers so far."""

    def __init__(self, sentences: Sequence[str | None], **options: Any) -> None:  # noqa: ANN401
        self._texts = texts_of(sentences)
        self._index = index_of(sentences)
        # Each request reads the options again.
        self._options = {
            name: list(value) if isinstance(value, Iterator) else value
            for name, value in options.items()
        }
        self._answers: list[Prediction | ItemError | None] = [None] * len(self._texts)
        self._several = False
        self._most = sys.maxsize  # bytes of a portion; less since one was too much work
        self._may_ask = True
        self._too_much: HeadlightError | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def fit(self, limits: Limits) -> bool:
        """Whether one request takes all of them."""
        return len(self._cut(limits)) <= 1

    def cut(self, limits: Limits, *, at_once: int = 1) -> list[range]:
        """Cuts what has no answer yet into portions, in order.

        If there are several, `at_once` of them together are not too much work.
        """
        portions = self._cut(limits)
        if len(portions) > 1 < at_once:
            portions = self._cut(replace(limits, work_tokens=limits.work_tokens // at_once))
        self._several |= len(portions) > 1
        return portions

    def _cut(self, limits: Limits) -> list[range]:
        read_as = (self._options.get("truncation"), self._options.get("granularity"))
        is_read_again = "window" in read_as or "sentence" in read_as
        tokens = limits.work_tokens // (_TOKENS_A_BYTE if is_read_again else 1)
        most_bytes = min(limits.body_bytes, self._most, tokens)
        around = self._bytes(range(0)) - 1  # the first text has no comma
        portions: list[range] = []
        size = 0
        for index, text in enumerate(self._texts):
            if self._answers[index] is not None:
                continue
            added = len(as_json(text)) + 1  # and a comma
            last = portions[-1] if portions else range(-1)
            fits = len(last) < limits.sentences and size + added <= most_bytes
            if last.stop == index and fits:
                portions[-1] = range(last.start, index + 1)
                size += added
            else:
                portions.append(range(index, index + 1))
                size = around + added
        return portions

    def _bytes(self, portion: range) -> int:
        return len(self.call(portion).body or b"")

    def call(self, portion: range) -> Call[list[Prediction | ItemError]]:
        """The request of a portion."""
        return predict(self._texts[portion.start : portion.stop], **self._options)

    def take(self, portion: range, answers: Sequence[Prediction | ItemError]) -> None:
        """Keeps the answers of a portion; an index in an error becomes one of all sentences."""
        for index, answer in zip(portion, answers, strict=True):
            if isinstance(answer, ItemError):
                answer = _moved(answer, portion.start)
            self._answers[index] = answer

    def fail(self, portion: range, error: HeadlightError) -> None:
        """Keeps the error as the answer of a sentence that is too large, or raises it.

        If there are several portions, its `part` shows which one failed and what is answered.
        """
        if len(portion) > 1 and isinstance(error, ProblemError) and error.type == _TOO_MUCH_WORK:
            self._too_much = error
            half = (self._bytes(portion) + self._bytes(range(0))) // 2
            self._most = min(self._most, half, (error.fits or {}).get("tokens", half))
        is_item = len(portion) == 1 and self._options.get("on_error") == "item"
        if is_item and isinstance(error, InvalidRequestError) and error.status == _TOO_LARGE:
            item = {name: getattr(error.problem, name) for name in Problem.__slots__}
            self._answers[portion.start] = ItemError(**item)
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


class Lines:
    """Shows how many sentences are answered in ten lines at most, as tqdm does in a bar."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = max(total, 1)
        self._done = 0
        self._shown = shown

    def update(self, more: int) -> None:
        """Counts more sentences as answered."""
        before, self._done = self._done, self._done + more
        is_next = self._done * _MOST_LINES // self._total > before * _MOST_LINES // self._total
        if self._shown and is_next:
            sys.stderr.write(f"headlight: {self._done} of {self._total} sentences\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def progress_of(total: int, *, shown: bool) -> Any:  # noqa: ANN401 - tqdm may be missing
    """Returns what shows the progress of a call: a bar of tqdm if it is installed, else lines."""
    if shown:
        with suppress(ImportError):
            from tqdm.auto import tqdm

            return tqdm(total=total, unit=" sentences")
    return Lines(total, shown=shown)
