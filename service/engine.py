"""The model as the service sees it: loaded in the background, watched, asked through the queue."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from model import Encoding, Explanation, ModelInfo, Prediction, Predictor
from service.batcher import Batcher
from service.errors import InternalError, NotReadyError
from service.metrics import Metrics

logger = logging.getLogger("headlight.engine")

_PROBE_SECONDS = 1.0
_LOADING = "The model is still loading: come back in a moment."
_FAILED = "The model could not be loaded; the log of the service says why."
_FAILING = "The last forward pass failed; the service probes itself every second."


class Engine:
    """Owns the predictor, its threads and its queue. `start` and `close` frame its life.

    Args:
        load: reads the weights; called on a thread of the engine.
        threads: that compute: of one pass, or each with a pass of its own.
        lanes: passes that may run at once.
        max_batch_tokens: in one pass, padding counted.
        max_queue_tokens: that may wait.
        metrics: where passes and the queue are counted.
    """

    def __init__(
        self,
        load: Callable[[], Predictor],
        *,
        threads: int,
        lanes: int,
        max_batch_tokens: int,
        max_queue_tokens: int,
        metrics: Metrics,
    ) -> None:
        self._load = load
        self._threads = threads
        self._lanes = lanes
        self._max_batch_tokens = max_batch_tokens
        self._max_queue_tokens = max_queue_tokens
        self._metrics = metrics
        self._executor = ThreadPoolExecutor(
            max_workers=lanes,
            thread_name_prefix="forward",
            initializer=partial(torch.set_num_threads, threads),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._predictor: Predictor | None = None
        self._batcher: Batcher | None = None
        self._fault: str | None = _LOADING

    @property
    def fault(self) -> str | None:
        """Why the engine is not ready, or None if it is."""
        return self._fault

    @property
    def predictor(self) -> Predictor:
        """The loaded model, for what needs no forward pass.

        Raises:
            NotReadyError: the model is still loading or failed to.
        """
        if self._predictor is None:
            raise NotReadyError(self._fault or _LOADING, retry_after=1)
        return self._predictor

    @property
    def info(self) -> ModelInfo:
        """What is known of the model.

        Raises:
            NotReadyError: the model is still loading or failed to.
        """
        return self.predictor.info

    def start(self) -> None:
        """Begins to load and warm up in the background."""
        self._spawn(self._start())

    async def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Predictions of one request's texts, in their order; raises as `Batcher.predict`."""
        return await self._running().predict(encodings)

    async def explain(
        self, encoding: Encoding, *, layers: Sequence[int] | None, heads: Sequence[int] | None
    ) -> Explanation:
        """A prediction with its attention weights; raises as `Batcher.explain`."""
        explain = partial(self.predictor.explain, encoding, layers=layers, heads=heads)
        return await self._running().explain(encoding, explain)

    async def close(self) -> None:
        """Ends the pass in hand, answers all who wait, and frees the thread."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._batcher is not None:
            await self._batcher.close()
        self._executor.shutdown(wait=True)

    def _running(self) -> Batcher:
        if self._batcher is None:
            raise NotReadyError(self._fault or _LOADING, retry_after=1)
        return self._batcher

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        try:
            predictor = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._load_and_warm_up
            )
        except Exception as error:  # the process stays up to say so at /health/ready
            self._fault = _FAILED
            logger.exception("the model could not be loaded", extra={"fault": str(error)})
            return
        self._predictor = predictor
        self._metrics.describe_model(predictor.info)
        self._batcher = Batcher(
            predictor.predict,
            executor=self._executor,
            lanes=self._lanes,
            use_threads=torch.set_num_threads,
            max_batch_tokens=self._max_batch_tokens,
            max_queue_tokens=self._max_queue_tokens,
            metrics=self._metrics,
            on_pass=self._note_pass,
        )
        self._fault = None
        logger.info(
            "model ready",
            extra={
                "model": predictor.info.name,
                "version": predictor.info.version,
                "device": predictor.info.device,
                "dtype": predictor.info.dtype,
                "threads": self._threads,
                "lanes": self._lanes,
            },
        )

    def _load_and_warm_up(self) -> Predictor:
        predictor = self._load()
        predictor.warm_up()
        return predictor

    def _note_pass(self, error: Exception | None) -> None:
        if error is None:
            self._fault = None
            return
        logger.error("a forward pass failed", exc_info=error, extra={"fault": str(error)})
        if self._fault is None:
            self._fault = _FAILING
            self._spawn(self._probe())

    async def _probe(self) -> None:
        """Runs a small pass every second until one works."""
        while self._fault is not None:
            await asyncio.sleep(_PROBE_SECONDS)
            try:
                await self._running().run(self.predictor.probe)
            except InternalError as error:  # still broken, whatever it is: again in a second
                cause = error.__cause__
                logger.exception("a probe failed", exc_info=cause, extra={"fault": str(cause)})
            else:
                logger.info("a forward pass works again")
                self._fault = None
