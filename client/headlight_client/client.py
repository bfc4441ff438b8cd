"""Asks a Headlight service, from ordinary code and from asyncio."""

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import httpx

from headlight_client import calls
from headlight_client.answers import ItemError, Prediction
from headlight_client.calls import AsyncPredictOptions, Call, OnError, PredictOptions
from headlight_client.config import ClientConfig
from headlight_client.errors import HeadlightError, InvalidRequestError
from headlight_client.exchange import Awaiting, Blocking, Transport, exchange, run, together
from headlight_client.portions import Limits, Portions, limits_of, progress_of
from headlight_client.tables import Predictions

P = ParamSpec("P")
T = TypeVar("T")
Http = TypeVar("Http")


def _method(build: Callable[P, Call[T]]) -> Callable[Concatenate["Client", P], T]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self._send(build(*args, **kwargs)))

    _show(method, build, "Client")
    return method


def _async_method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(build(*args, **kwargs))

    _show(method, build, "AsyncClient")
    return method


def _show(method: Any, build: Callable[..., Call[Any]], of: str) -> None:  # noqa: ANN401
    """Gives a method that sends calls the signature that `help` and mocks look up."""
    built = inspect.signature(build)
    (result,) = built.return_annotation.__args__
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *built.parameters.values()]
    method.__signature__ = built.replace(parameters=parameters, return_annotation=result)
    method.__annotations__ = {**build.__annotations__, "return": result}
    method.__qualname__, method.__module__ = f"{of}.{build.__name__}", __name__


class _Client(Generic[Http]):
    """What both clients do; the transport says how they wait."""

    _transport_of: Callable[..., Transport]

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        http_client: Http | None = None,
    ) -> None:
        self._config = ClientConfig(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self._transport = self._transport_of(http_client)
        self._limits: Limits | None = None

    async def _send(self, call: Call[T]) -> T:
        return await exchange(call, self._config, self._transport)

    async def _predict(
        self,
        sentences: Sequence[str],
        *,
        progress: bool,
        concurrency: int,
        **options: Any,  # noqa: ANN401
    ) -> Predictions[Any]:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        portions = Portions(sentences, **options)
        with progress_of(len(portions), shown=progress) as shown:
            must_ask = self._limits is None and not portions.fit(Limits())
            while True:
                if must_ask:
                    self._limits = limits_of((await self._send(calls.model())).limits)
                cut = portions.cut(self._limits or Limits(), at_once=concurrency)
                waiting = iter(cut)

                async def work(waiting: Iterator[range] = waiting) -> None:
                    for portion in waiting:  # which all that work at once share
                        try:
                            answers = await self._send(portions.call(portion))
                        except HeadlightError as error:
                            portions.fail(portion, error)
                        else:
                            portions.take(portion, answers)
                        shown.update(len(portion))

                try:
                    count = min(concurrency, len(cut))
                    await (work() if count <= 1 else together([work() for _ in range(count)]))
                    return portions.result()
                except InvalidRequestError as error:
                    # The service takes less at once than it did, or than others do.
                    if not (must_ask := portions.may_divide(error)):
                        raise


class Client(_Client[httpx.Client]):
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

    _transport_of = Blocking

    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: Literal["request"] = "request",
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    def predict(
        self, sentences: Sequence[str], *, on_error: OnError, **options: Unpack[PredictOptions]
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
        return run(self._predict(sentences, progress=progress, concurrency=1, **options))

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
        run(self._transport.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Client[httpx.AsyncClient]):
    """Asks a Headlight service from asyncio. Tasks of one event loop may share it.

    Arguments, results and errors are those of `Client`. A client has 100 connections, unless
    `http_client` sets other limits. The wait for a free one counts towards `timeout`.
    """

    _transport_of = Awaiting

    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: Literal["request"] = "request",
        **options: Unpack[AsyncPredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    async def predict(
        self, sentences: Sequence[str], *, on_error: OnError, **options: Unpack[AsyncPredictOptions]
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
        return await self._predict(sentences, progress=progress, concurrency=concurrency, **options)

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
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
