"""Asks a Headlight service from asyncio."""

import asyncio
from asyncio import sleep
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import httpx

from headlight_client import calls
from headlight_client.answers import ItemError, Prediction
from headlight_client.calls import Call, Granularity, HeadMask, OnError, PredictOptions, Reading
from headlight_client.config import make_config
from headlight_client.errors import HeadlightError, InvalidRequestError
from headlight_client.exchange import Outcome, Wait, exchange
from headlight_client.indices import Indices
from headlight_client.portions import Limits, Portions, limits_of
from headlight_client.predictions import Predictions
from headlight_client.progress import Progress
from headlight_client.sending import send_async

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    calls.show_as_method(method, build, of="AsyncClient", module=__name__)
    return method


class AsyncClient:
    """Asks a Headlight service from asyncio. Tasks of one event loop may share it.

    Arguments, results and errors are those of `Client`. A client has 100 connections, unless
    `http_client` sets other limits. The wait for a free one counts towards `timeout`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._config = make_config(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self._owns_http = http_client is None
        self._http = httpx.AsyncClient() if http_client is None else http_client
        self._limits: Limits | None = None

    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: Literal["request"] = "request",
        progress: bool = False,
        concurrency: int = 4,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: OnError,
        progress: bool = False,
        concurrency: int = 4,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction | ItemError]: ...
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Reading = "right",
        granularity: Granularity = "text",
        labels: Sequence[str] | None = None,
        abstain_below: float | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
        on_error: OnError = "request",
        progress: bool = False,
        concurrency: int = 4,
    ) -> Predictions[Prediction] | Predictions[Prediction | ItemError]:
        """Predicts labels and calibrated probabilities, as `Client.predict`.

        Up to `concurrency` requests are under way at once. If one fails, the others are cancelled.

        Raises:
            ValueError: `concurrency` is less than 1.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        portions = Portions(
            sentences,
            on_error=on_error,
            truncation=truncation,
            granularity=granularity,
            labels=labels,
            abstain_below=abstain_below,
            head_mask=head_mask,
            omit=omit,
        )
        with Progress(len(portions), shown=progress) as shown:
            must_ask = self._limits is None and not portions.fit(Limits())
            while True:
                if must_ask:
                    self._limits = limits_of((await self.model()).limits)
                try:
                    cut = portions.cut(self._limits or Limits(), at_once=concurrency)
                    await self._predict_all(portions, cut, shown, concurrency)
                    break
                except InvalidRequestError as error:
                    # The service takes less at once than it did, or than others do.
                    must_ask = portions.may_divide(error)
                    if not must_ask:
                        raise
        return portions.result()

    attention = _method(calls.attention)
    attentions = _method(calls.attentions)
    thumbnails = _method(calls.thumbnails)
    attention_steps = _method(calls.attention_steps)
    attributions = _method(calls.attributions)
    importance = _method(calls.importance)
    model = _method(calls.model)
    is_ready = _method(calls.is_ready)

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _predict_all(
        self, portions: Portions, cut: Sequence[range], shown: Progress, concurrency: int
    ) -> None:
        waiting = iter(cut)

        async def work() -> None:
            for portion in waiting:
                try:
                    answers = await self.send(portions.call(portion))
                except HeadlightError as error:
                    portions.fail(portion, error)
                else:
                    portions.take(portion, answers)
                shown.update(portions.answered)

        workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(cut)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def send(self, call: Call[T]) -> T:
        """Sends a call, again where that may help, and returns its result."""
        steps = exchange(call, self._config)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                await sleep(step.seconds)
                outcome = None
            else:
                outcome = await send_async(self._http, step)
