"""Asks a Headlight service and waits for each answer."""

from collections.abc import Sequence
from time import sleep
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
from headlight_client.sending import send
from headlight_client.steps import AttentionSteps

T = TypeVar("T")


class Client:
    """Asks a Headlight service. Threads may share it.

    Every method raises a `HeadlightError` if no answer comes or the service refuses. The client
    tries again after a refused or broken connection and after status 429, 502 or 503. It waits for
    `Retry-After` if the answer has one, and starts no attempt after `timeout`.

    A sentence that is not a string, such as a missing value of a table, is sent as null; the
    service names its index. A number that is not a whole number raises a TypeError.

    Args:
        base_url: of the service, such as `http://127.0.0.1:8000`.
        api_key: for a service with keys.
        timeout: seconds for one call, all attempts and pauses included. The service hears what is
            left and drops work that would be too late. Each wait has its own limit: at most 5
            seconds for a connection; for bytes, what was left when sending, the headers or the
            body began. An answer that comes too late is dropped. A call can take longer than
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
        self._config = make_config(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self._owns_http = http_client is None
        self._http = httpx.Client() if http_client is None else http_client
        self._limits: Limits | None = None

    @overload
    def predict(
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
    ) -> Predictions[Prediction]: ...
    @overload
    def predict(
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
    ) -> Predictions[Prediction | ItemError]: ...
    def predict(
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
    ) -> Predictions[Prediction] | Predictions[Prediction | ItemError]:
        """Predicts labels and calibrated probabilities.

        More sentences than the service takes at once are sent in several requests, one after the
        other, by the limits that the service tells. Each has `timeout` for itself. If one fails,
        the error's `part` says which sentences it had, and holds the answers of the others.

        Args:
            sentences: any number.
            truncation: which end of a long text is cut off; `error` refuses a long text; `window`
                reads it whole, in windows.
            granularity: `text`, or `sentence`: each prediction has its `sentences` too.
            abstain_below: where the probability of the best class is below it, from 0 to 1, the
                label is None.
            head_mask: heads that are switched off, such as `[{"layer": 0, "head": 3}]`, or
                `[{"layer": 0}]` for all heads of a layer.
            omit: numbers of tokens, as `attention` gives them, that are left out of the only
                sentence.
            on_error: `request`: one bad sentence refuses all; `item`: it gets an `ItemError` in its
                place.
            progress: whether to show how many are answered, on standard error: by tqdm if it is
                installed, else by lines.

        Returns:
            One prediction per sentence, in order: a list that can become a table of pandas.
        """
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
                    self._limits = limits_of(self.model().limits)
                try:
                    for portion in portions.cut(self._limits or Limits()):
                        self._predict(portions, portion)
                        shown.update(portions.answered)
                    break
                except InvalidRequestError as error:
                    # The service takes less at once than it did, or than others do.
                    if is_last or not portions.exceeds_limits(error):
                        raise
        return portions.result()

    def attention(
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
        """Returns the attention weights of one sentence, or a view of them.

        Args:
            sentence: not blank.
            layers: numbers of the layers, from 0; all if None.
            heads: numbers of the heads, from 0; all if None.
            reduce: `mean` or `max` over the chosen heads of each layer; `rollout` merges the
                chosen layers and heads into one map (Abnar and Zuidema 2020).
            level: `token`, or `word`: rows and columns are words.
            truncation: as in `predict`.
            window: the number of the window to show, from 0, with `truncation` `window`; the
                first if None.
            head_mask: as in `predict`.
            omit: numbers of tokens, from 0, that are left out; special ones stay.
        """
        return self._carry_out(
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

    def attentions(
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
        """Returns the attention weights of several sentences, in order, from one request.

        One bad sentence refuses all. The weights of all sentences together must stay within the
        service's limit.
        """
        return self._carry_out(
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

    def thumbnails(
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
        """Returns the maps of one sentence reduced to few rows and columns.

        They show all heads of a long text in little memory, with what each token looks at most.

        Args:
            sentence: not blank.
            size: most rows and columns of a map, from 8.
            special: whether the maps show special tokens.
            layers: as in `attention`.
            heads: as in `attention`.
            reduce: as in `attention`.
            level: as in `attention`.
            truncation: as in `attention`.
            window: as in `attention`.
            head_mask: as in `attention`.
            omit: as in `attention`.
        """
        return self._carry_out(
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

    def attention_steps(
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
        """Returns how one head makes the weights that one token gives, from its queries and keys.

        Args:
            sentence: not blank.
            layer: number of the layer.
            head: number of the head in it.
            query: number of the token whose weights they are, as `attention` numbers tokens.
            truncation: as in `attention`.
            window: as in `attention`.
            head_mask: as in `attention`.
            omit: as in `attention`.
        """
        return self._carry_out(
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
        """Returns what each token or word adds to the log-odds of a label, by gradients.

        Args:
            sentence: not blank.
            label: to explain; the predicted one if None.
            method: `integrated_gradients` (Sundararajan, Taly and Yan 2017), or the quicker and
                rougher `gradient_x_input`.
            steps: nodes of the integral; the service's default if None.
            level: `token`, or `word`: the tokens of a word are summed.
            truncation: as in `predict`.
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
        """Returns how much the log-odds of a label depend on each head.

        The measure is that of Michel, Levy and Neubig 2019.

        Args:
            sentence: not blank.
            label: to explain; the predicted one if None.
            truncation: as in `predict`.
        """
        return self._carry_out(calls.importance_call(sentence, label=label, truncation=truncation))

    def model(self) -> ModelInfo:
        """Describes the served model, with its recorded measurements."""
        return self._carry_out(calls.model_call())

    def is_ready(self) -> bool:
        """Tells whether the service is ready; False if nothing answers. It asks once.

        Raises:
            UnexpectedAnswerError: something else answers, such as a login page.
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

    def _predict(self, portions: Portions, portion: range) -> None:
        try:
            answers = self._carry_out(portions.call(portion))
        except HeadlightError as error:
            portions.fail(portion, error)
        else:
            portions.take(portion, answers)

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
