"""The same as `headlight_client.client`, for asyncio."""

from asyncio import sleep
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, SupportsIndex, TypeVar, overload

import httpx

from headlight_client import calls
from headlight_client.answers import ItemError, ModelInfo, Prediction
from headlight_client.attention import Attention
from headlight_client.attributions import Attributions, Importance
from headlight_client.calls import Call, Level, Method, OnError, Reduce, Truncation
from headlight_client.config import make_config
from headlight_client.exchange import Outcome, Wait, exchange
from headlight_client.indices import Indices
from headlight_client.sending import send_async

T = TypeVar("T")


class AsyncClient:
    """Asks a Headlight service from asyncio. May be used by several tasks of one event loop.

    Arguments, results and errors are those of `Client`. Many calls at once wait for a connection,
    100 unless `http_client` has other limits, and that wait is a part of `timeout`.

    Args:
        base_url: of the service, such as `http://127.0.0.1:8000`.
        api_key: for a service that has keys.
        timeout: of a call with all of its attempts and pauses, in seconds.
        retries: the most attempts after the first.
        http_client: to ask through, with a proxy or certificates of your own; you close it.

    Raises:
        TypeError: `retries` is no whole number.
        ValueError: an argument cannot be.
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

    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Truncation = "right",
        on_error: Literal["request"] = "request",
    ) -> list[Prediction]: ...
    @overload
    async def predict(
        self, sentences: Sequence[str], *, truncation: Truncation = "right", on_error: OnError
    ) -> list[Prediction | ItemError]: ...
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Truncation = "right",
        on_error: OnError = "request",
    ) -> list[Prediction] | list[Prediction | ItemError]:
        """Labels and calibrated probabilities, as `Client.predict`."""
        return await self._carry_out(
            calls.predict_call(sentences, truncation=truncation, on_error=on_error)
        )

    async def attention(
        self,
        sentence: str,
        *,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> Attention:
        """The attention weights of one sentence, as `Client.attention`."""
        return await self._carry_out(
            calls.attention_call(
                sentence,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
            )
        )

    async def attentions(
        self,
        sentences: Sequence[str],
        *,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> list[Attention]:
        """The same of several sentences, as `Client.attentions`."""
        return await self._carry_out(
            calls.attentions_call(
                sentences,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
            )
        )

    async def attributions(
        self,
        sentence: str,
        *,
        label: str | None = None,
        method: Method = "integrated_gradients",
        steps: SupportsIndex | None = None,
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> Attributions:
        """What each token, or each word, adds, as `Client.attributions`."""
        return await self._carry_out(
            calls.attributions_call(
                sentence,
                label=label,
                method=method,
                steps=steps,
                level=level,
                truncation=truncation,
            )
        )

    async def importance(
        self, sentence: str, *, label: str | None = None, truncation: Truncation = "right"
    ) -> Importance:
        """How much depends on each head, as `Client.importance`."""
        return await self._carry_out(
            calls.importance_call(sentence, label=label, truncation=truncation)
        )

    async def model(self) -> ModelInfo:
        """Which model answers, as `Client.model`."""
        return await self._carry_out(calls.model_call())

    async def is_ready(self) -> bool:
        """Whether requests should be sent, as `Client.is_ready`."""
        return await self._carry_out(calls.ready_call())

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _carry_out(self, call: Call[T]) -> T:
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
