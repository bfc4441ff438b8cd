"""Asks a Headlight service, from ordinary code and from asyncio."""

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import httpx

from headlight_client import calls
from headlight_client.answers import ItemError, Prediction
from headlight_client.calls import Call, OnError, PredictOptions
from headlight_client.config import make_config
from headlight_client.errors import HeadlightError, InvalidRequestError
from headlight_client.exchange import Awaiting, Blocking, Transport, exchange, run
from headlight_client.portions import Limits, Portions, limits_of
from headlight_client.predictions import Predictions
from headlight_client.progress import Progress

P = ParamSpec("P")
T = TypeVar("T")


def _method(build: Callable[P, Call[T]]) -> Callable[Concatenate["Client", P], T]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self._session.send(build(*args, **kwargs)))

    calls.show_as_method(method, build, of="Client", module=__name__)
    return method


def _async_method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._session.send(build(*args, **kwargs))

    calls.show_as_method(method, build, of="AsyncClient", module=__name__)
    return method


class _Session:
    """What both clients do; the transport says how they wait."""

    def __init__(self, transport: Transport, base_url: str, **config: Any) -> None:  # noqa: ANN401
        self._transport = transport
        self._config = make_config(base_url, **config)
        self._limits: Limits | None = None

    async def send(self, call: Call[T]) -> T:
        return await exchange(call, self._config, self._transport)

    async def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool,
        concurrency: int,
        on_error: OnError = "request",
        **options: Unpack[PredictOptions],
    ) -> Predictions[Any]:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        portions = Portions(sentences, on_error=on_error, **options)
        with Progress(len(portions), shown=progress) as shown:
            must_ask = self._limits is None and not portions.fit(Limits())
            while True:
                if must_ask:
                    self._limits = limits_of((await self.send(calls.model())).limits)
                cut = portions.cut(self._limits or Limits(), at_once=concurrency)
                waiting = iter(cut)

                async def work(waiting: Any = waiting) -> None:  # noqa: ANN401 - shared
                    for portion in waiting:
                        await self._predict(portions, portion)
                        shown.update(portions.answered)

                try:
                    count = min(concurrency, len(cut))
                    await self._transport.together([work() for _ in range(count)])
                    return portions.result()
                except InvalidRequestError as error:
                    # The service takes less at once than it did, or than others do.
                    must_ask = portions.may_divide(error)
                    if not must_ask:
                        raise

    async def _predict(self, portions: Portions, portion: range) -> None:
        try:
            answers = await self.send(portions.call(portion))
        except HeadlightError as error:
            portions.fail(portion, error)
        else:
            portions.take(portion, answers)


class Client:
    """Asks a Headlight service. Threads may share it.

    Every method raises a `HeadlightError` if no answer comes or the service rejects the request.
    The client tries again after a refused or broken connection and after status 429, 502 or 503. It
    waits for `Retry-After` if the answer has one, and starts no attempt after `timeout`.

    A sentence that is not a string, such as a missing value of a table, is sent as null; the
    service names its index. A number that is not a whole number raises a TypeError.

    Args:
        base_url: address of the service, such as `http://127.0.0.1:8000`.
        api_key: needed by a service with keys.
        timeout: seconds for one call, all attempts and pauses included. The service drops work that
            would be too late. A connection may take at most 5 seconds. A call can take longer than
            `timeout` if a name has several addresses and none answers, if a request or headers
            pass a few bytes at a time, or if a body stops half-way (then less than twice
            `timeout`). `AsyncClient` always ends at `timeout`.
        retries: most attempts after the first.
        http_client: your own, for a proxy or certificates; you close it.

    Raises:
        TypeError: `retries` is not a whole number.
        ValueError: an argument is not valid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        http_client: httpx.Client | None = None,
    ) -> None:
        self._owns_http = http_client is None
        self._http = httpx.Client() if http_client is None else http_client
        self._session = _Session(
            Blocking(self._http), base_url, api_key=api_key, timeout=timeout, retries=retries
        )

    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool = False,
        on_error: Literal["request"] = "request",
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool = False,
        on_error: OnError,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction | ItemError]: ...
    def predict(
        self, sentences: Sequence[str], *, progress: bool = False, **options: Any
    ) -> Predictions[Any]:
        """Predicts labels and calibrated probabilities.

        More sentences than the service takes at once are sent in several requests, one after the
        other, within the limits that the service reports. Each has its own `timeout`. If one fails,
        the error's `part` names its sentences and holds the answers of the others.

        Args:
            sentences: any number, in a list, an array or a Series, whose index a table keeps.
            progress: whether a progress bar shows on standard error: by tqdm if it is installed,
                else by lines.
            on_error: `request`: one bad sentence refuses all; `item`: it gets an `ItemError` in its
                place.
            truncation: which end of a long text is cut off; `error` refuses a long text; `window`
                reads it whole, in windows.
            granularity: `text`, or `sentence`: each prediction has its `sentences` too.
            labels: two or more of the model's labels to choose among; all if None.
            abstain_below: from 0 to 1; below this probability of the best class the label is None.
            head_mask: heads that are switched off, such as `[{"layer": 0, "head": 3}]`, or
                `[{"layer": 0}]` for all heads of a layer.
            omit: token numbers, as `attention` gives them, that are left out of the only sentence.

        Returns:
            One prediction per sentence, in order: a list that can become a table of pandas.
        """
        predicting = self._session.predict(sentences, progress=progress, concurrency=1, **options)
        return run(predicting)

    attention = _method(calls.attention)
    attentions = _method(calls.attentions)
    thumbnails = _method(calls.thumbnails)
    attention_steps = _method(calls.attention_steps)
    attributions = _method(calls.attributions)
    importance = _method(calls.importance)
    model = _method(calls.model)
    is_ready = _method(calls.is_ready)

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        self._owns_http = http_client is None
        self._http = httpx.AsyncClient() if http_client is None else http_client
        self._session = _Session(
            Awaiting(self._http), base_url, api_key=api_key, timeout=timeout, retries=retries
        )

    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool = False,
        concurrency: int = 4,
        on_error: Literal["request"] = "request",
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool = False,
        concurrency: int = 4,
        on_error: OnError,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction | ItemError]: ...
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool = False,
        concurrency: int = 4,
        **options: Any,
    ) -> Predictions[Any]:
        """Predicts labels and calibrated probabilities, as `Client.predict`.

        Up to `concurrency` requests are under way at once. If one fails, the others are cancelled.

        Raises:
            ValueError: `concurrency` is less than 1.
        """
        return await self._session.predict(
            sentences, progress=progress, concurrency=concurrency, **options
        )

    attention = _async_method(calls.attention)
    attentions = _async_method(calls.attentions)
    thumbnails = _async_method(calls.thumbnails)
    attention_steps = _async_method(calls.attention_steps)
    attributions = _async_method(calls.attributions)
    importance = _async_method(calls.importance)
    model = _async_method(calls.model)
    is_ready = _async_method(calls.is_ready)

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
