"""A queue before a network that notes what came together, for tests."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import numpy as np

from model import AttentionOptions, Encoding, Explanation, Prediction
from model.predictor import PathName
from service.metrics import FUSED, Metrics
from service.queue.admission import NO_LIMITS, WorkLimits
from service.queue.queue import Queue
from service.queue.scheduler import ClientId, Item, Request, Weight

Result = TypeVar("Result")
HOLDING = 7
FAILING = 13  # a text with this id makes its pass fail


def encoding(identity: int, length: int = 1) -> Encoding:
    """A text of some length that can be told from all others."""
    return Encoding([identity] * length, truncated=False)


def request_of(
    *lengths: int,
    client: object = "a",
    route: str = "",
    input: object = None,
    path: PathName = FUSED,
    cost: float = 1.0,
    weight: Weight = Weight.LIGHT,
    urgent_at: float = math.inf,
) -> tuple[Request, list[Item]]:
    """A request for texts of these lengths that nobody waits for."""
    request = Request(path, ClientId(client, route), cast("Any", None), len(lengths))
    request.tokens, request.cost = sum(lengths), cost
    request.weight, request.urgent_at = weight, urgent_at
    return request, [
        Item(request, index, input, [encoding(1, length)]) for index, length in enumerate(lengths)
    ]


def prediction(text: Encoding) -> Prediction:
    return Prediction(str(text.input_ids[0]), 1.0, {"a": 1.0}, len(text.input_ids), False)


class Recorder:
    """Stands for the network: notes what came together."""

    def __init__(self) -> None:
        self.batches: list[list[Encoding]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.begun: list[list[Encoding]] = []

    @property
    def ids(self) -> list[list[int]]:
        """The texts of each batch, by their ids."""
        return [[text.input_ids[0] for text in batch] for batch in self.batches]

    def classify(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Tells each text which it was, unless one of them makes the pass fail."""
        self.begun.append(list(encodings))
        self.entered.release()
        assert self.gate.wait(20)
        self.batches.append(list(encodings))
        if any(text.input_ids[0] == FAILING for text in encodings):
            raise RuntimeError("made to fail")
        return [prediction(text) for text in encodings]

    def explain(self, questions: Sequence[AttentionOptions]) -> list[Explanation]:
        """The same, with a weight of 1."""
        texts = [question.encoding for question in questions]
        return [
            Explanation(
                said,
                question.encoding,
                tuple(question.layers or [0]),
                tuple(question.heads or [0]),
                np.ones((1, 1, 1, 1), np.float32),
                residual_share=0.5,
            )
            for said, question in zip(self.classify(texts), questions, strict=True)
        ]


def label_of(_: int, explanation: Explanation) -> str:
    """What a request makes of its explanation, in these tests."""
    return explanation.prediction.best


class Setting:
    """A queue with its workers, and what they report."""

    def __init__(
        self,
        *,
        max_batch_tokens: int = 8,
        max_queue_tokens: int = 1000,
        workers: int = 1,
        cores: int | None = None,
        extra: bool = False,
        worth_sharing: int = 100,
        mixes_lengths: bool = False,
        limits: WorkLimits = NO_LIMITS,
    ) -> None:
        self.recorder = Recorder()
        self.metrics = Metrics([])
        self.passes: list[Exception | None] = []
        self.lost: list[bool] = []
        self.threads: list[int] = []
        self.executor = ThreadPoolExecutor(max_workers=workers + 2 * extra)
        self.queue = Queue(
            lambda encodings: self.recorder.classify(encodings),
            self.recorder.explain,
            self.executor,
            workers=workers,
            extra=extra,
            cores=cores,
            worth_sharing=worth_sharing,
            max_batch_tokens=max_batch_tokens,
            mixes_lengths=mixes_lengths,
            max_queue_tokens=max_queue_tokens,
            limits=limits,
            metrics=self.metrics,
            use_threads=self.threads.append,
            on_pass=lambda _path, _began, error: self.passes.append(error),
            on_lost=lambda: self.lost.append(True),
        )

    def value(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keeps a worker in a pass of one token, so that with one worker what comes waits."""
        self.recorder.gate.clear()
        holding = asyncio.create_task(self.queue.predict([encoding(HOLDING)]))
        while not any(
            text.input_ids[0] == HOLDING for batch in self.recorder.begun for text in batch
        ):
            assert await asyncio.to_thread(self.recorder.entered.acquire, timeout=20)
        try:
            yield
        finally:
            self.recorder.gate.set()
            await asyncio.gather(holding, return_exceptions=True)

    async def close(self) -> None:
        await self.queue.close()
        self.executor.shutdown()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs on an event loop, and never for ever."""
    return asyncio.run(asyncio.wait_for(work, 30))
