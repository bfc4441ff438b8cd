"""From sentences to what the service says of them, waiting for it."""

from collections.abc import Sequence
from time import sleep
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
from headlight_client.sending import send

T = TypeVar("T")


class Client:
    """Asks a Headlight service. May be used by several threads at once.

    Every method raises a `HeadlightError` if there is no answer or the service refuses. Refused and
    broken connections and the statuses 429, 502 and 503 are tried again, after `Retry-After` if the
    service says so; nothing is begun after `timeout`.

    A sentence that is no string, such as a missing value of a table, is sent as null, and the
    service names it. A number that is no whole number raises a TypeError.

    Args:
        base_url: of the service, such as `http://127.0.0.1:8000`.
        api_key: for a service that has keys.
        timeout: of a call with all of its attempts and pauses, in seconds. The service hears what
            is left of it, and drops work that is too late. Each wait is limited by what is left:
            for a connection 5 seconds at most, for bytes what was left when sending, the headers or
            the body began; an answer that comes too late all the same is dropped. So a call takes
            longer where a name has several addresses and none answers, where a request or headers
            pass a few bytes at a time, and where a body stops half-way, then less than twice
            `timeout`. `AsyncClient` ends at `timeout` whatever it waits for.
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
        http_client: httpx.Client | None = None,
    ) -> None:
        self._config = make_config(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self._owns_http = http_client is None
        self._http = httpx.Client() if http_client is None else http_client

    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Truncation = "right",
        on_error: Literal["request"] = "request",
    ) -> list[Prediction]: ...
    @overload
    def predict(
        self, sentences: Sequence[str], *, truncation: Truncation = "right", on_error: OnError
    ) -> list[Prediction | ItemError]: ...
    def predict(
        self,
        sentences: Sequence[str],
        *,
        truncation: Truncation = "right",
        on_error: OnError = "request",
    ) -> list[Prediction] | list[Prediction | ItemError]:
        """Labels and calibrated probabilities, in one request.

        Args:
            sentences: as many as the service takes at once, 256 unless set otherwise.
            truncation: which end of a text that is too long is cut off; `error` refuses it.
            on_error: `request`: one bad sentence refuses all; `item`: it gets an `ItemError` in its
                place.

        Returns:
            For each sentence what the model says of it, in their order.
        """
        return self._carry_out(
            calls.predict_call(sentences, truncation=truncation, on_error=on_error)
        )

    def attention(
        self,
        sentence: str,
        *,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> Attention:
        """The attention weights of one sentence, or a view of them.

        Args:
            sentence: not blank.
            layers: numbers of the wanted layers, from 0; all if None.
            heads: numbers of the wanted heads, from 0; all if None.
            reduce: `mean` or `max` of the chosen heads of each layer; `rollout` of all that is
                chosen, to one map (Abnar and Zuidema 2020).
            level: `word`: rows and columns stand for words.
            truncation: as of `predict`.
        """
        return self._carry_out(
            calls.attention_call(
                sentence,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
            )
        )

    def attentions(
        self,
        sentences: Sequence[str],
        *,
        layers: Indices | None = None,
        heads: Indices | None = None,
        reduce: Reduce = "none",
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> list[Attention]:
        """The same of several sentences, in one request and in their order.

        A bad sentence refuses all. All weights together must stay within the service's limit.
        """
        return self._carry_out(
            calls.attentions_call(
                sentences,
                layers=layers,
                heads=heads,
                reduce=reduce,
                level=level,
                truncation=truncation,
            )
        )

    def attributions(
        self,
        sentence: str,
        *,
        label: str | None = None,
        method: Method = "integrated_gradients",
        steps: SupportsIndex | None = None,
        level: Level = "token",
        truncation: Truncation = "right",
    ) -> Attributions:
        """What each token, or each word, adds to the log-odds of a label, by gradients.

        Args:
            sentence: not blank.
            label: to explain; the predicted one if None.
            method: `integrated_gradients` (Sundararajan, Taly and Yan 2017), or the quicker and
                rougher `gradient_x_input`.
            steps: nodes of the integral; the service's own choice if None.
            level: `word`: the tokens of a word are summed.
            truncation: as of `predict`.
        """
        return self._carry_out(
            calls.attributions_call(
                sentence,
                label=label,
                method=method,
                steps=steps,
                level=level,
                truncation=truncation,
            )
        )

    def importance(
        self, sentence: str, *, label: str | None = None, truncation: Truncation = "right"
    ) -> Importance:
        """How much the log-odds of a label depend on each head (Michel, Levy and Neubig 2019).

        Args:
            sentence: not blank.
            label: to explain; the predicted one if None.
            truncation: as of `predict`.
        """
        return self._carry_out(calls.importance_call(sentence, label=label, truncation=truncation))

    def model(self) -> ModelInfo:
        """Which model answers, with what was measured of it."""
        return self._carry_out(calls.model_call())

    def is_ready(self) -> bool:
        """Whether requests should be sent; also False if nothing answers. Asked once.

        Raises:
            UnexpectedAnswerError: what answers is no Headlight service, such as a page to log in.
        """
        return self._carry_out(calls.ready_call())

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _carry_out(self, call: Call[T]) -> T:
        steps = exchange(call, self._config)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                sleep(step.seconds)
                outcome = None
            else:
                outcome = send(self._http, step, self._config.now)
