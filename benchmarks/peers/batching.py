"""Batches the texts of several requests by tokens, and runs the batches on an engine's lanes."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.passes import batches

Ids = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class Engine(Protocol):
    """Computes batches on several lanes. B texts of up to T tokens, C labels.

    Attributes:
        lanes: passes at once.
    """

    lanes: int

    def run(self, ids: Ids, mask: Ids, *, lane: int, alone: bool) -> Logits:
        """Computes a batch.

        Args:
            ids: of the tokens, padded, [B, T].
            mask: 1 where a token is, 0 where padding is, [B, T].
            lane: that no other pass uses now.
            alone: whether it is one text and no other pass runs, so that it may have all cores.

        Returns:
            The logits, [B, C].
        """


@dataclass(slots=True, eq=False)
class _Request:
    """The rows of a request so far, and how many are missing."""

    rows: list[Logits | None]
    left: int
    answer: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Text:
    """A text that waits, and its place in its request."""

    ids: Sequence[int]
    place: int
    request: _Request


def padded(texts: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Pads texts to the longest of them.

    Args:
        texts: the ids of each of B texts.

    Returns:
        The ids and a mask, 1 where a token is, [B, T].
    """
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask


class Batcher:
    """Puts texts of similar length into batches, and starts one whenever a lane is idle.

    Nothing waits for more texts while a lane is idle. It belongs to one event loop.

    Args:
        engine: that computes.
        max_batch_tokens: of a batch, padding counted; a longer text goes alone.
    """

    def __init__(self, engine: Engine, *, max_batch_tokens: int) -> None:
        self._engine = engine
        self._max_batch_tokens = max_batch_tokens
        self._waiting: list[_Text] = []  # the oldest first
        self._idle = list(range(engine.lanes))
        self._threads = ThreadPoolExecutor(engine.lanes, thread_name_prefix="lane")

    async def logits(self, texts: Sequence[Sequence[int]]) -> list[Logits]:
        """Computes the texts of a request.

        Args:
            texts: the ids of each.

        Returns:
            The logits of each text, [C].

        Raises:
            Exception: what the engine raised for one of its batches.
        """
        if not texts:
            return []
        answer = asyncio.get_running_loop().create_future()
        request = _Request([None] * len(texts), len(texts), answer)
        self._waiting += [_Text(ids, place, request) for place, ids in enumerate(texts)]
        self._start()
        await answer
        return [row for row in request.rows if row is not None]

    def _start(self) -> None:
        """Gives each idle lane a batch, as long as texts wait."""
        loop = asyncio.get_running_loop()
        while self._idle and self._waiting:
            taken = self._take()
            lane = self._idle.pop()
            is_only = len(self._idle) == self._engine.lanes - 1 and not self._waiting
            alone = is_only and len(taken) == 1
            running = loop.run_in_executor(self._threads, self._run, taken, lane, alone)
            running.add_done_callback(partial(self._finish, taken, lane))

    def _take(self) -> list[_Text]:
        """Takes the batch of the oldest text out of all that wait, sorted by length."""
        tokens = sum(len(text.ids) for text in self._waiting)
        # A lane leaves the other idle ones their share.
        limit = min(self._max_batch_tokens, -(-tokens // len(self._idle)))
        oldest = self._waiting[0]
        found = batches(self._waiting, limit, length=lambda text: len(text.ids))
        taken = next(batch for batch in found if oldest in batch)
        gone = set(taken)
        self._waiting = [text for text in self._waiting if text not in gone]
        return taken

    def _run(self, texts: Sequence[_Text], lane: int, alone: bool) -> Logits:
        """Pads a batch to its longest text and computes it, on the thread of a lane."""
        ids, mask = padded([text.ids for text in texts])
        return self._engine.run(ids, mask, lane=lane, alone=alone)

    def _finish(self, texts: Sequence[_Text], lane: int, done: asyncio.Future[Logits]) -> None:
        """Hands the rows of a batch to their requests, or its error, and frees its lane."""
        self._idle.append(lane)
        error = done.exception()
        for row, text in enumerate(texts):
            request = text.request
            if request.answer.done():
                continue
            if error is not None:
                request.answer.set_exception(error)
                continue
            request.rows[text.place] = done.result()[row]
            request.left -= 1
            if not request.left:
                request.answer.set_result(None)
        # What is left of a request that failed, or that nobody waits for, is not computed.
        self._waiting = [text for text in self._waiting if not text.request.answer.done()]
        self._start()
