"""What waits for the network, and what goes through it together.

A batch knows how it is computed, on a lane, and to whom its results are handed, on the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from model import Encoding, Explanation, Prediction, Question
from service.metrics import EXPLICIT, FUSED, GRADIENT

Result = TypeVar("Result")
Classify = Callable[[Sequence[Encoding]], list[Prediction]]
Explain = Callable[[Sequence[Question]], list[Explanation]]


@dataclass(slots=True, eq=False)
class Waiter(Generic[Result]):
    """A request that waits for `missing` of its results.

    Args:
        future: answered with all of them in their order, or with an error.
        results: those that are there.
        missing: how many are not.
    """

    future: asyncio.Future[list[Result]]
    results: dict[int, Result]
    missing: int

    def deliver(self, index: int, result: Result) -> None:
        """Takes one result; the last one answers."""
        self.results[index] = result
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result([self.results[place] for place in range(len(self.results))])

    def fail(self, error: Exception) -> None:
        """Answers with an error; without effect if there is an answer."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Text:
    """One text of a request that wants predictions."""

    waiter: Waiter[Prediction]
    index: int
    encoding: Encoding

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The one text."""
        return (self.encoding,)


@dataclass(slots=True, eq=False)
class Asked:
    """One text whose attention is wanted, and what to make of it while still on the lane."""

    waiter: Waiter[Any]
    index: int
    question: Question
    finish: Callable[[int, Explanation], object]

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The one text."""
        return (self.question.encoding,)


@dataclass(frozen=True, slots=True)
class Job(Generic[Result]):
    """Something else that must run on a lane, and alone.

    Args:
        run: called there.
        encodings: a text for each row that goes through the network in it, all of one length; if
            there is none it costs nothing, and is no pass that is counted.
    """

    run: Callable[[], Result]
    encodings: Sequence[Encoding] = ()

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(len(encoding.input_ids) for encoding in self.encodings)


@dataclass(slots=True, eq=False)
class Call:
    """One job of a request."""

    waiter: Waiter[Any]
    index: int
    job: Job[Any]

    @property
    def encodings(self) -> Sequence[Encoding]:
        """A text for each row."""
        return self.job.encodings


Entry = Text | Asked | Call


@dataclass(slots=True, eq=False)
class Pass:
    """What goes through the network together.

    Args:
        entries: what they are; all of one kind.
        path: through the network, as metrics name it.
        run: the pass over some of them; a result for each, in their order.
        finish: makes what is handed out of an entry and its result; None: the result is.
    """

    entries: Sequence[Any]
    path: str
    run: Callable[[Sequence[Any]], Sequence[Any]]
    finish: Callable[[Any, Any], object] | None = None
    unanswered: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Begins with all of them unanswered."""
        self.unanswered = list(self.entries)

    @property
    def encodings(self) -> list[Encoding]:
        """The texts, in their order."""
        return [encoding for entry in self.entries for encoding in entry.encodings]

    def compute(self, call: Callable[[Callable[[], None]], object]) -> Callable[[], None]:
        """Runs the pass.

        Results that have to be finished are handed out one by one, so that the first is on its
        way, and maybe followed by the next request, while the others are still being made.

        Args:
            call: calls something on the event loop, soon.

        Returns:
            What hands out the rest of the results, on the event loop.

        Raises:
            Exception: the pass failed, or the first of the results that could not be finished;
                `fail` tells those who wait for them.
        """
        results = self.run(self.entries)
        if self.finish is None:
            return partial(self._deliver, results)
        return self._finish_each(self.finish, results, call)

    def _finish_each(
        self,
        finish: Callable[[Any, Any], object],
        results: Sequence[Any],
        call: Callable[[Callable[[], None]], object],
    ) -> Callable[[], None]:
        self.unanswered = []
        failures: list[Exception] = []
        deliver: list[Callable[[], None]] = []
        for entry, result in zip(self.entries, results, strict=True):
            if deliver:
                call(deliver.pop())
            try:
                finished = finish(entry, result)
            except Exception as error:  # the others of the pass are none the worse for it
                failures.append(error)
                self.unanswered.append(entry)
            else:
                deliver.append(partial(entry.waiter.deliver, entry.index, finished))
        if not failures:
            return deliver.pop()
        if deliver:
            call(deliver.pop())
        try:
            raise failures[0]
        finally:
            failures.clear()  # their tracebacks keep this frame, and that the weights

    def _deliver(self, results: Sequence[Any]) -> None:
        for entry, result in zip(self.entries, results, strict=True):
            entry.waiter.deliver(entry.index, result)

    def fail(self, error: Exception) -> None:
        """Tells those who will get no result."""
        for entry in self.unanswered:
            entry.waiter.fail(error)


def form_batch(entries: Sequence[Entry], *, classify: Classify, explain: Explain) -> Pass:
    """The batch of entries that a schedule lets go together.

    Args:
        entries: at least one; all texts, all asked, or all calls of one request.
        classify: the fused pass.
        explain: the explicit pass.
    """
    first = entries[0]
    if isinstance(first, Call):
        return Pass(entries, GRADIENT, lambda calls: [call.job.run() for call in calls])
    if isinstance(first, Text):
        return Pass(entries, FUSED, lambda texts: classify([text.encoding for text in texts]))
    return Pass(
        entries,
        EXPLICIT,
        lambda asked: explain([each.question for each in asked]),
        finish=lambda asked, explanation: asked.finish(asked.index, explanation),
    )
