"""Scores pieces of tables; the following ones are read and encoded meanwhile.

Reading and encoding have a thread each; passes run on the one that calls, where signals raise.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from model.tables.pieces import Rows
from model.types import EncodedText
from scoring.scorer import Answers, Scorer


class Pipeline:
    """The steps of numbered pieces before they are written.

    Args:
        read: returns the rows of a piece by its number.
        advance: called with the numbers of rows that are scored.
    """

    def __init__(
        self,
        scorer: Scorer,
        read: Callable[[int], Rows],
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._scorer, self._read, self._advance = scorer, read, advance
        self._threads = ExitStack()
        self._reading = self._threads.enter_context(one_thread())
        self._encoding = self._threads.enter_context(one_thread())
        self._collected = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)  # beside torch, it takes half of the time of Python
        self._begun: dict[int, Future[tuple[Rows, list[EncodedText | Exception]]]] = {}

    def score(self, number: int, following: Sequence[int] = ()) -> tuple[Rows, Answers]:
        """Returns the rows of a piece and their answers.

        In memory are only this piece and the following ones, which go on if this one fails.
        """
        for each in (number, *following):
            if each not in self._begun:
                rows = self._reading.submit(self._read, each)
                self._begun[each] = self._encoding.submit(self._encode, rows)
        read, encoded = self._begun.pop(number).result()
        return read, self._scorer.answer(encoded, advance=self._advance)

    def close(self) -> None:
        """Ends the threads, once their steps at work are done; no other step begins."""
        gc.set_threshold(*self._collected)
        self._threads.close()

    def _encode(self, reading: Future[Rows]) -> tuple[Rows, list[EncodedText | Exception]]:
        rows = reading.result()
        return rows, self._scorer.encode(rows.texts)


@contextmanager
def one_thread() -> Iterator[ThreadPoolExecutor]:
    """Yields a thread for steps. Its end waits for the one at work, even if a signal comes."""
    executor = ThreadPoolExecutor(1)
    try:
        yield executor
    finally:
        try:
            executor.shutdown(cancel_futures=True)
        finally:  # a signal ends the first wait, but what the step uses is closed after it
            executor.shutdown()
