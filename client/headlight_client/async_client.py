"""Asks a Headlight service from asyncio."""

import asyncio
from asyncio import sleep
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, SupportsIndex, TypeVar, overload

import httpx

from headlight_client import calls
from headlight_client.answers import ItemError, ModelInfo, Prediction
from headlight_client.attention import Attention, Thumbnails
from headlight_client.attributions import Attributions, Importance
from headlight_client.calls import (
    Call,
    Granularity,
    HeadMask,
    Level,
    Method,
    OnError,
    Reading,
    Reduce,
    Truncation,
)
from headlight_client.config import make_config
from headlight_client.errors import HeadlightError, InvalidRequestError
from headlight_client.exchange import Outcome, Wait, exchange
from headlight_client.indices import Indices
from headlight_client.portions import Limits, Portions, limits_of
from headlight_client.predictions import Predictions
from headlight_client.progress import Progress
from headlight_client.sending import send_async
from headlight_client.steps import AttentionSteps

T = TypeVar("T")


class AsyncClient:
    """Asks a Headlight service from asyncio. Tasks of one event loop may share it.

    Arguments, results and errors are those of `Client`. A client has 100 connections, unless
    `http_client` sets other limits. The wait for a free one counts towards `timeout`.

    Args:
        base_url: of the service, such as `http://127.0.0.1:8000`.
        api_key: for a service with keys.
        timeout: seconds for one call, all attempts and pauses included.
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
        truncation: Reading = "right",
        granularity: Granularity = "text",
        abstain_below: float | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
        on_error: Literal["request"] = "request",
        progress: bool = False,
        concurrency: int = 4,
    ) -> Predictions[Prediction]: ...
    @overload
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Reading = "right",
        granularity: Granularity = "text",
        abstain_below: float | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
        on_error: OnError,
        progress: bool = False,
        concurrency: int = 4,
    ) -> Predictions[Prediction | ItemError]: ...
    async def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Reading = "right",
        granularity: Granularity = "text",
        abstain_below: float | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
        on_error: OnError = "request",
        progress: bool = False,
        concurrency: int = 4,
    ) -> Predictions[Prediction] | Predictions[Prediction | ItemError]:
        """Predicts labels and calibrated probabilities, as `Client.predict`.

        Of several requests, up to `concurrency` are under way at once. If one fails, the others
        are given up.

        Raises:
            ValueError: `concurrency` is less than 1.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        portions = Portions(
            sentences,
            truncation=truncation,
            on_error=on_error,
            granularity=granularity,
            abstain_below=abstain_below,
            head_mask=head_mask,
            omit=omit,
        )
        with Progress(len(portions), shown=progress) as shown:
            for is_last in (False, True):
                if is_last or (self._limits is None and not portions.fit(Limits())):
                    self._limits = limits_of((await self.model()).limits)
                try:
                    cut = portions.cut(self._limits or Limits())
                    await self._predict_all(portions, cut, shown, concurrency)
                    break
                except InvalidRequestError as error:
                    # The service takes less at once than it did, or than others do.
                    if is_last or not portions.exceeds_limits(error):
                        raise
        return portions.result()

    async def attention(
        self,
        sentence: str,
        *,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Reading = "right",
        window: SupportsIndex | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
    ) -> Attention:
        """Returns the attention weights of one sentence, as `Client.attention`."""
        return await self._carry_out(
            calls.attention_call(
                sentence,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
                window=window,
                head_mask=head_mask,
                omit=omit,
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
        truncation: Reading = "right",
        window: SupportsIndex | None = None,
        head_mask: HeadMask | None = None,
    ) -> list[Attention]:
        """Returns the attention weights of several sentences, as `Client.attentions`."""
        return await self._carry_out(
            calls.attentions_call(
                sentences,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
                window=window,
                head_mask=head_mask,
            )
        )

    async def thumbnails(
        self,
        sentence: str,
        *,
        size: SupportsIndex = 48,
        special: bool = True,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Reading = "right",
        window: SupportsIndex | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
    ) -> Thumbnails:
        """Returns reduced maps of one sentence, as `Client.thumbnails`."""
        return await self._carry_out(
            calls.thumbnails_call(
                sentence,
                size=size,
                special=special,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
                window=window,
                head_mask=head_mask,
                omit=omit,
            )
        )

    async def attention_steps(
        self,
        sentence: str,
        *,
        layer: SupportsIndex,
        head: SupportsIndex,
        query: SupportsIndex,
        truncation: Reading = "right",
        window: SupportsIndex | None = None,
        head_mask: HeadMask | None = None,
        omit: Indices | None = None,
    ) -> AttentionSteps:
        """Returns how one head makes its weights, as `Client.attention_steps`."""
        return await self._carry_out(
            calls.attention_steps_call(
                sentence,
                layer=layer,
                head=head,
                query=query,
                truncation=truncation,
                window=window,
                head_mask=head_mask,
                omit=omit,
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
        """Returns what each token or word adds, as `Client.attributions`."""
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
        """Returns how much the answer depends on each head, as `Client.importance`."""
        return await self._carry_out(
            calls.importance_call(sentence, label=label, truncation=truncation)
        )

    async def model(self) -> ModelInfo:
        """Describes the served model, as `Client.model`."""
        return await self._carry_out(calls.model_call())

    async def is_ready(self) -> bool:
        """Tells whether the service is ready, as `Client.is_ready`."""
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

    async def _predict_all(
        self, portions: Portions, cut: Sequence[range], shown: Progress, concurrency: int
    ) -> None:
        waiting = iter(cut)

        async def work() -> None:
            for portion in waiting:
                try:
                    answers = await self._carry_out(portions.call(portion))
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
