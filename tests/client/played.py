"""Carries a call out without a socket, by a clock that only the test moves."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx

from headlight_client import HeadlightError
from headlight_client.answers import Answer
from headlight_client.calls import Call
from headlight_client.config import ClientConfig, make_config
from headlight_client.exchange import Outcome, Send, Wait, exchange

CALL = Call("POST", "/predict", lambda answer: answer.content, body=b"{}")
DONE = Answer(200, httpx.Headers(), b"done")
REFUSED = httpx.ConnectError("refused")


class Clock:
    """Moves by what is done: each attempt takes some seconds, each pause its length."""

    def __init__(self, *, attempt: float = 0.0) -> None:
        self.at = 1000.0
        self.attempt = attempt
        self.begun: list[float] = []

    def __call__(self) -> float:
        return self.at


def client_config(clock: Clock, *, draw: float = 0.5, **changes: Any) -> ClientConfig:  # noqa: ANN401
    given = {"api_key": None, "timeout": 30.0, "retries": 2, **changes}
    made = make_config("http://there:8000", **given)
    names = (f"call-{number}" for number in itertools.count(1))
    return replace(made, now=clock, draw=lambda: draw, new_id=lambda: next(names))


def unavailable(retry_after: int | None = None, *, status: int = 503) -> Answer:
    members: dict[str, object] = {"retry_after": retry_after} if retry_after is not None else {}
    content = {"type": "/problems/overloaded", "title": "T", "status": status, "detail": "D"}
    headers = httpx.Headers({"content-type": "application/problem+json"})
    return Answer(status, headers, json.dumps(content | members).encode())


def play(
    call: Call[Any], config: ClientConfig, clock: Clock, outcomes: Callable[[int], Outcome]
) -> tuple[Any, list[Send], list[float]]:
    """Carries a call out: its result or error, what was sent and how long was waited."""
    steps = exchange(call, config)
    sends: list[Send] = []
    waits: list[float] = []
    outcome: Outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return end.value, sends, waits
        except HeadlightError as error:
            return error, sends, waits
        if isinstance(step, Wait):
            waits.append(step.seconds)
            clock.at += step.seconds
            outcome = None
        else:
            sends.append(step)
            clock.begun.append(clock.at)
            clock.at += clock.attempt
            outcome = outcomes(len(sends) - 1)
