"""Loads the model in the background, watches its passes, and sends requests to its queue."""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from model import AttentionOptions, ModelInfo, Predictor
from model.backends.base import Backend, use_threads
from model.backends.threads import yield_to_others
from model.cli.process import return_memory
from model.predictor import WARM_UP_TEXT, PathName
from service.errors import InternalError, NotInstalledError, NotReadyError, OverloadedError
from service.logs import safe_message
from service.metrics import EXPLICIT, FUSED, GRADIENT, Metrics
from service.queue.admission import NO_LIMITS, Pace, WorkLimits
from service.queue.queue import EXTRA_WORKERS, Queue
from service.queue.scheduler import Job, Weight

if TYPE_CHECKING:  # it imports torch
    from model.explain.gradients import Gradients

Result = TypeVar("Result")
logger = logging.getLogger("headlight.engine")

_PROBE_SECONDS = 1.0
_LOADING = "The model is still loading: come back in a moment."
_FAILED = "The model could not be loaded; the log of the service says why."
_STUCK = "A forward pass has not ended for {:g} seconds: the process has to be restarted."
_LOST = "The device {} is lost to this process: it has to be restarted."
_NO_WORKER = "Worker threads stopped unexpectedly too often: the process has to be restarted."
_CLOSE_SECONDS = 2.0
# Texts of some 120 and 500 tokens. A token of a long one takes longer; `FUSED` holds for any text.
_TIMES_WARM_UP_TEXT, _TIMES_LONG = 11, 45
_ROUNDS = 2
_FAILING = "The last forward pass failed; the service probes itself every second."


class Engine:
    """The predictor with its threads and its queue, from `start` to `close`.

    Args:
        load: reads the weights; called on a thread of the engine.
        max_batch_tokens: tokens of one pass with padding; `auto` takes the backend's number.
        watchdog_seconds: longer passes count as stuck.
    """

    def __init__(
        self,
        load: Callable[[], Predictor],
        backend: Backend,
        *,
        max_batch_tokens: int | Literal["auto"],
        max_queue_tokens: int,
        watchdog_seconds: float,
        metrics: Metrics,
        preload_gradients: bool = False,
    ) -> None:
        self._preload_gradients = preload_gradients
        self._load = load
        self._backend = backend
        if max_batch_tokens != "auto":
            backend.default_batch_tokens = max_batch_tokens
        self.max_batch_tokens = backend.default_batch_tokens
        self._max_queue_tokens = max_queue_tokens
        self._watchdog_seconds = watchdog_seconds
        self._metrics = metrics
        self._executor = ThreadPoolExecutor(
            max_workers=backend.workers + len(EXTRA_WORKERS),
            thread_name_prefix="forward",
            initializer=partial(use_threads, backend.threads),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._predictor: Predictor | None = None
        #: the most work of a request; it does not change once the model is loaded
        self.limits = NO_LIMITS
        self._queue: Queue | None = None
        self._not_loaded: str | None = _LOADING
        self._failing: dict[PathName, float] = {}  # paths that have not worked since they failed
        self._probing: asyncio.Task[None] | None = None
        self._logged_stuck = False
        self._lost: str | None = None

    @property
    def not_ready(self) -> str | None:
        """Why the engine is not ready, or None if it is."""
        return self.stuck or self._not_loaded or (_FAILING if self._failing else None)

    @property
    def stuck(self) -> str | None:
        """Why the process has to be restarted, or None if it does not."""
        if self._lost is not None:
            return self._lost
        seconds = self._queue.longest_pass() if self._queue is not None else 0.0
        if seconds < self._watchdog_seconds:
            return None
        if not self._logged_stuck:
            self._logged_stuck = True
            logger.critical("a forward pass does not end", extra={"seconds": round(seconds, 1)})
        return _STUCK.format(self._watchdog_seconds)

    def backlog_seconds(self, *, full: float) -> float:
        """Returns how many seconds the admitted work takes; `full` if a restart is needed.

        A replica whose pass is slow must not look idle: it counts by the time that it has taken.
        """
        if self._queue is None:
            return 0.0
        running = full if self.stuck is not None else self._queue.longest_pass()
        return max(self._queue.work_seconds(), min(running, full))

    @property
    def predictor(self) -> Predictor:
        """The loaded model, for calls without a forward pass; raises NotReadyError."""
        if self._predictor is None:
            raise NotReadyError(self._lost or self._not_loaded or _LOADING, retry_after=1)
        return self._predictor

    @property
    def info(self) -> ModelInfo:
        """A description of the model; raises as `predictor`."""
        return self.predictor.info

    @property
    def queue(self) -> Queue:
        """The queue before the network; raises NotReadyError without a model or a device."""
        if self._queue is None or self._lost is not None:
            raise NotReadyError(self._lost or self._not_loaded or _LOADING, retry_after=1)
        return self._queue

    async def gradients(self) -> "Gradients":
        """Returns derivatives; the first call imports torch, on a thread.

        Raises:
            NotInstalledError: torch is not installed.
            NotReadyError: there is no model.
        """
        predictor = self.predictor
        _ = self.queue  # not before a device that is lost
        if predictor.has_gradients:
            return predictor.gradients

        def make() -> "Gradients":
            gc.disable()  # it would go through what is imported again and again, while all wait
            try:
                made = predictor.gradients
                gc.freeze()  # it stays, like all that is there at the start
            finally:
                gc.enable()
            return made

        try:
            return await asyncio.to_thread(make)
        except ImportError as error:
            raise NotInstalledError(
                f"Derivatives need the package {error.name or 'torch'}, which is not installed "
                "here. The method leave_out does without."
            ) from error

    def start(self) -> None:
        """Starts to load the model and to warm it up, in the background."""
        self._loading = self._spawn(self._start())

    async def loaded(self, seconds: float) -> bool | None:
        """Waits at most so long for the model; returns whether it is there, None while it loads."""
        done, _ = await asyncio.wait([self._loading], timeout=seconds)
        return self._predictor is not None if done else None

    def check_room(self, client: Hashable, route: str, seconds: float) -> None:
        """Raises as `Queue.check_room` does; lets every request in while the model loads."""
        if self._queue is not None:
            self._queue.check_room(client, route, seconds)

    async def close(self) -> bool:
        """Answers all waiting requests; returns False if a pass keeps the process from ending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ended = self._queue is None or await self._queue.close(_CLOSE_SECONDS)
        self._executor.shutdown(wait=ended)
        return ended

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start(self) -> None:
        try:
            predictor = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._load_and_warm_up
            )
            self._use(predictor)
        except asyncio.CancelledError:
            raise
        # The process stays up, and /health/ready reports the error, a panic of Rust code too.
        except BaseException as error:
            self._not_loaded = _FAILED
            logger.exception("the model could not be loaded", extra={"fault": str(error)})
            self._check_device(error)

    def _use(self, predictor: Predictor) -> None:
        """Opens the queue to a loaded model."""
        info, backend = predictor.info, self._backend
        self._metrics.model.labels(info.name, info.version, info.device, info.dtype).set(1)
        self._queue = Queue(
            predictor.predict_each,
            predictor.explain_each,
            self._executor,
            workers=backend.workers,
            extra=backend.workers == backend.cores,  # a GPU shares itself
            cores=backend.cores,
            worth_sharing=backend.worth_sharing_tokens,
            max_batch_tokens=self.max_batch_tokens,
            max_queue_tokens=self._max_queue_tokens,
            computes_padding=backend.computes_padding,
            mixes_lengths=backend.shapes_passes,
            explained_tokens=backend.explained_tokens,
            limits=self.limits,
            metrics=self._metrics,
            begin=self._begin_worker,
            use_threads=use_threads,
            on_pass=self._note_pass,
            on_lost=self._lose_workers,
        )
        self._predictor, self._not_loaded = predictor, None
        logger.info(
            "model ready",
            extra={
                "model": info.name,
                "version": info.version,
                "device": info.device,
                "engine": info.engine,
                "dtype": info.dtype,
                "dtype_reason": info.dtype_reason,
                "threads": backend.threads,
                "workers": backend.workers,
            },
        )

    def _load_and_warm_up(self) -> Predictor:
        predictor = self._load()
        if self._preload_gradients:
            predictor.gradients.probe(predictor.encode(WARM_UP_TEXT, with_tokens=True))
        predictor.warm_up()
        self.limits = WorkLimits(
            measure_pace(predictor, self._backend, self.max_batch_tokens),
            cores=self._backend.cores,
            max_length=predictor.info.max_length,
            max_batch_tokens=self.max_batch_tokens,
            max_queue_tokens=self._max_queue_tokens,
        )
        # All objects so far stay; to collect garbage among them takes a fifth of a second.
        gc.collect()
        gc.freeze()
        # Loading took some weights several times over.
        return_memory()
        return predictor

    def _begin_worker(self, only: Weight | None) -> None:
        """Lets the event loop run before the workers, and the one for light requests too."""
        niceness = self._backend.niceness
        by_weight = {None: niceness, Weight.LIGHT: 0, Weight.HEAVY: niceness * 3 // 2}
        yield_to_others(by_weight[only])

    def _note_pass(self, path: PathName, began: float, error: Exception | None) -> None:
        if error is None:
            self._note_works(path, began)
            return
        logger.error("a forward pass failed", exc_info=error, extra=safe_message(error))
        self._failing[path] = time.monotonic()
        self._check_device(error)
        if self._lost is None and (self._probing is None or self._probing.done()):
            self._probing = self._spawn(self._probe())

    def _note_works(self, path: PathName, began: float) -> None:
        """Notes that a pass worked, which proves nothing about a failure after it began."""
        if self._failing.get(path, began) <= began:
            self._failing.pop(path, None)

    def _check_device(self, error: BaseException | None) -> None:
        """Ends all work if an error means that the device is lost."""
        if error is not None and self._backend.is_fatal(error) and self._lost is None:
            logger.critical("the device is lost", extra={"device": self._backend.device})
            self._lose(_LOST.format(self._backend.device))

    def _lose(self, reason: str) -> None:
        """Answers all who wait; only another process can go on."""
        self._lost = reason
        if self._queue is not None:
            self._queue.stop()
            self._queue.fail_all(NotReadyError(reason, retry_after=1))

    def _lose_workers(self) -> None:
        logger.critical("worker thread stopped too often: the process has to be restarted")
        self._lose(_NO_WORKER)

    async def _probe(self) -> None:
        """Runs a small pass on each path that fails, every second until all work."""
        while self._failing and self._lost is None:
            await asyncio.sleep(_PROBE_SECONDS)
            for path in list(self._failing):
                await self._probe_path(path)

    async def _probe_path(self, path: PathName) -> None:
        began = time.monotonic()
        try:
            await self.queue.run([Job(partial(self.predictor.probe, path))])
        except InternalError as error:  # still broken: try again in a second
            cause = error.__cause__
            logger.exception("a probe failed", exc_info=cause, extra=safe_message(cause))
            self._check_device(cause)
        except (OverloadedError, NotReadyError):  # it did not run
            return
        else:
            self._note_works(path, began)
            if path not in self._failing:
                logger.info("a forward pass works again", extra={"path": path})


def measure_pace(predictor: Predictor, backend: Backend, max_batch_tokens: int) -> Pace:
    """Returns the seconds of a core for a token of each path, while all cores compute.

    They are those of the processor, which other processes do not change much; of another device
    those of the clock.
    """
    # Cores that share parts are slower together.
    with ThreadPoolExecutor(backend.cores, initializer=use_threads, initargs=(1,)) as pool:
        run = partial(_measure_here, predictor, backend, max_batch_tokens)
        measured = list(pool.map(lambda _: run(), range(backend.cores)))
    pace = {path: sum(each[path] for each in measured) / len(measured) for path in measured[0]}
    if backend.gradient_cost is not None:
        # To measure them would import torch. Weights cost less than a long text does.
        pace |= {EXPLICIT: pace[FUSED], GRADIENT: backend.gradient_cost * pace[FUSED]}
    return pace


def _measure_here(predictor: Predictor, backend: Backend, max_batch_tokens: int) -> Pace:
    text = predictor.encode(WARM_UP_TEXT * _TIMES_WARM_UP_TEXT, with_tokens=True)
    long = predictor.encode(WARM_UP_TEXT * _TIMES_LONG)
    length, most = len(text.input_ids), len(long.input_ids)
    whole = [long] * max(1, max_batch_tokens // most)
    explained = min(max_batch_tokens, backend.explained_tokens)
    options = [AttentionOptions(text)] * max(1, explained // length)
    timed: list[tuple[PathName, Callable[[], object], int]] = [
        (FUSED, lambda: predictor.predict(whole), most * len(whole)),
        (EXPLICIT, lambda: predictor.explain_batch(options), length * len(options)),
        (GRADIENT, lambda: predictor.gradients.head_importance(text, label=None), length),
    ]
    if backend.gradient_cost is not None:
        del timed[1:]
    clock = time.thread_time if backend.device == "cpu" else time.perf_counter
    return {path: _seconds(run, clock) / tokens for path, run, tokens in timed}


def _seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Returns the time of the quickest of some runs; the first of a size takes longer."""
    times = []
    for _ in range(_ROUNDS):
        started = clock()
        run()
        times.append(clock() - started)
    return min(times)
