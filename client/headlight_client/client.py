"""Asks a Headlight service and waits for each answer."""

from collections.abc import Callable, Sequence
from functools import wraps
from time import sleep
from typing import Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

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
from headlight_client.sending import send

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate["Client", P], T]:
    """Returns a method that sends the call built from its arguments."""

    @wraps(build)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    calls.show_as_method(method, build, of="Client", module=__name__)
    return method


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
        self._config = make_config(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self._owns_http = http_client is None
        self._http = httpx.Client() if http_client is None else http_client
        self._limits: Limits | None = None

    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: Literal["request"] = "request",
        progress: bool = False,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction]: ...
    @overload
    def predict(
        self,
        sentences: Sequence[str],
        *,
        on_error: OnError,
        progress: bool = False,
        **options: Unpack[PredictOptions],
    ) -> Predictions[Prediction | ItemError]: ...
    def predict(
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
    ) -> Predictions[Prediction] | Predictions[Prediction | ItemError]:
        """Predicts labels and calibrated probabilities.

        More sentences than the service takes at once are sent in several requests, one after the
        other, within the limits that the service reports. Each has its own `timeout`. If one fails,
        the error's `part` names its sentences and holds the answers of the others.

        Args:
            sentences: any number, in a list, an array or a Series, whose index a table keeps.
            truncation: which end of a long text is cut off; `error` refuses a long text; `window`
                reads it whole, in windows.
            granularity: `text`, or `sentence`: each prediction has its `sentences` too.
            labels: two or more of the model's labels to choose among; all if None.
            abstain_below: from 0 to 1; below this probability of the best class the label is None.
            head_mask: heads that are switched off, such as `[{"layer": 0, "head": 3}]`, or
                `[{"layer": 0}]` for all heads of a layer.
            omit: token numbers, as `attention` gives them, that are left out of the only sentence.
            on_error: `request`: one bad sentence refuses all; `item`: it gets an `ItemError` in its
                place.
            progress: whether a progress bar shows on standard error: by tqdm if it is installed,
                else by lines.

        Returns:
            One prediction per sentence, in order: a list that can become a table of pandas.
        """
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
                    self._limits = limits_of(self.model().limits)
                try:
                    for portion in portions.cut(self._limits or Limits()):
                        self._predict(portions, portion)
                        shown.update(portions.answered)
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

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _predict(self, portions: Portions, portion: range) -> None:
        try:
            answers = self.send(portions.call(portion))
        except HeadlightError as error:
            portions.fail(portion, error)
        else:
            portions.take(portion, answers)

    def send(self, call: Call[T]) -> T:
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
                sleep(step.seconds)
                outcome = None
            else:
                outcome = send(self._http, step, self._config.now)
