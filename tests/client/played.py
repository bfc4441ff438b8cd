"""Carries a call out without a socket, by a clock that only the test moves."""

# ruff: noqa: ANN401

import json
from collections.abc import Callable
from typing import Any

import httpx

from headlight_client import HeadlightError
from headlight_client.answers import Answer
from headlight_client.calls import Call
from headlight_client.config import ClientConfig
from headlight_client.exchange import Blocking, exchange, run

CALL = Call("POST", "/predict", lambda answer: answer.content, body=b"{}")
DONE = Answer(200, httpx.Headers(), b"done")
REFUSED = httpx.ConnectError("refused")

Outcome = Answer | httpx.RequestError

# It only builds requests.
_HTTP = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(500)))


class Clock:
    """Moves by what is done: each attempt takes some seconds, each pause its length."""

    def __init__(self, *, attempt: float = 0.0, asleep: float = 0.0) -> None:
        self.at = 1000.0
        self.attempt = attempt
        self.asleep = asleep  # longer than a pause should be
        self.begun: list[float] = []

    def __call__(self) -> float:
        return self.at


def client_config(clock: Clock | None = None, *, draw: float = 0.5, **changes: Any) -> ClientConfig:
    given = {"api_key": None, "timeout": 30.0, "retries": 2, **changes}
    return ClientConfig("http://there:8000", now=clock or Clock(), draw=lambda: draw, **given)


def unavailable(retry_after: int | None = None, *, status: int = 503) -> Answer:
    members: dict[str, object] = {"retry_after": retry_after} if retry_after is not None else {}
    content = {"type": "/problems/overloaded", "title": "T", "status": status, "detail": "D"}
    headers = httpx.Headers({"content-type": "application/problem+json"})
    return Answer(status, headers, json.dumps(content | members).encode())


class Played(Blocking):
    """A transport without a socket: notes what is sent and how long is waited."""

    def __init__(self, clock: Clock, outcomes: Callable[[int], Outcome]) -> None:
        super().__init__(_HTTP)
        self.sends: list[httpx.Request] = []
        self.waits: list[float] = []
        self._clock = clock
        self._outcomes = outcomes

    async def send(self, request: httpx.Request, seconds: float) -> Answer:
        assert request.extensions["timeout"]["read"] == seconds
        self.sends.append(request)
        self._clock.begun.append(self._clock.at)
        self._clock.at += self._clock.attempt
        outcome = self._outcomes(len(self.sends) - 1)
        if isinstance(outcome, Answer):
            return outcome
        raise outcome

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.at += seconds + self._clock.asleep


def play(
    call: Call[Any], config: ClientConfig, outcomes: Callable[[int], Outcome]
) -> tuple[Any, list[httpx.Request], list[float]]:
    """Carries a call out: its result or error, what was sent and how long was waited."""
    assert isinstance(config.now, Clock)
    played = Played(config.now, outcomes)
    try:
        result = run(exchange(call, config, played))
    except HeadlightError as error:
        result = error
    return result, played.sends, played.waits
