"""Sends a service requests of every kind, and compares each answer with the first to the same."""

import http.client
import io
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tests.containers.stack import Answer, ask

_PAUSE = 0.02
_RETRY_SECONDS = 0.5
# `not-ready` is the balancer's, when no replica is there.
_REFUSALS = {503: ("/problems/overloaded", "/problems/not-ready"), 504: ("/problems/timeout",)}
_SENTENCES = [
    f"The {thing} {judgement}."
    for thing in ("plot", "cast", "battery", "service", "room")
    for judgement in ("is superb", "was a waste of time", "could not be better", "broke at once")
]
_STORY = ("The battery lasts a day, the screen is bright, and I would buy it again. " * 25).split()
# Passes of many sizes: what a processor keeps for each size is part of what is watched.
_LONG = [" ".join(_STORY[:words]) for words in (*range(20, 360, 17), 375)]
_EXPLAINED = [*_SENTENCES[:8], *_LONG[:4]]


class Kind(NamedTuple):
    """Requests of one kind; two answers differ by at most `tolerance`, in bfloat16 by default."""

    path: str
    bodies: list[dict[str, object]]
    tolerance: float = 0.03
    weight: int = 1
    status: int = 200


_DERIVATIVES = 2e-3  # between two derivatives in float32, with one thread or more
KINDS = {
    "one sentence": Kind("/predict", [{"sentences": [each]} for each in _SENTENCES], weight=8),
    "32 sentences": Kind("/predict", [{"sentences": [*_SENTENCES, *_SENTENCES[:12]]}]),
    "a long text": Kind("/predict", [{"sentences": [each]} for each in _LONG], weight=2),
    "attention as json": Kind(
        "/attention", [{"sentence": each, "layer": [0]} for each in _EXPLAINED]
    ),
    "attention as npz": Kind(
        "/attention", [{"sentence": each, "layer": [0], "format": "npz"} for each in _LONG[:6]]
    ),
    "attributions": Kind(
        "/attributions",
        [{"sentence": each, "label": "positive", "steps": 8} for each in _EXPLAINED],
        _DERIVATIVES,
    ),
    "importance": Kind(
        "/importance",
        [{"sentence": each, "label": "positive"} for each in _EXPLAINED],
        _DERIVATIVES,
    ),
    "an empty text": Kind("/predict", [{"sentences": [" "]}], status=422),
    "too many steps": Kind("/attributions", [{"sentence": "good", "steps": 257}], status=422),
}


class WrongError(Exception):
    """An answer is not what it should be; the message says what it is."""


class RefusedError(Exception):
    """The service has no room or no time, and says so as it should."""


@dataclass(slots=True)
class Tally:
    """Counts right answers and refusals by kind of request, and all faults; for several threads."""

    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, counter: Counter[str], name: str) -> None:
        """Adds one to one of the counters."""
        with self._lock:
            counter[name] += 1


class Client:
    """Knows the answers of the service at a port of this machine, and asks again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._expected: dict[tuple[str, int], object] = {}
        for name, kind in KINDS.items():
            for number in range(len(kind.bodies)):
                while (name, number) not in self._expected:
                    try:
                        self._expected[name, number] = self._answer(name, number)
                    except RefusedError:
                        time.sleep(_RETRY_SECONDS)

    def run(self, seed: int, tally: Tally, stop: threading.Event) -> None:
        """Asks at random until `stop` is set."""
        chance = random.Random(seed)
        weights = [kind.weight for kind in KINDS.values()]
        pause = _PAUSE
        while not stop.wait(pause):
            name = chance.choices(list(KINDS), weights=weights)[0]
            was_refused = self.ask(name, chance.randrange(len(KINDS[name].bodies)), tally)
            pause = _RETRY_SECONDS if was_refused else _PAUSE

    def ask(self, name: str, number: int, tally: Tally) -> bool:
        """Sends one request, and counts its answer; returns whether it was refused."""
        try:
            found = self._answer(name, number)
            _compare(found, self._expected[name, number], KINDS[name].tolerance, name)
        except RefusedError:
            tally.count(tally.refused, name)
            return True
        except (WrongError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
            tally.count(tally.faults, f"{name}: {error!r}")
        else:
            tally.count(tally.right, name)
        return False

    def _answer(self, name: str, number: int) -> object:
        kind = KINDS[name]
        body = kind.bodies[number]
        answer = ask(self._port, "POST", kind.path, body)
        if answer.status != kind.status:
            raise _refusal(answer)
        if answer.status != 200:
            return None
        if "format" in body:
            with np.load(io.BytesIO(answer.body)) as archive:
                return {name: archive[name].tolist() for name in archive}
        return answer.json()


def _refusal(answer: Answer) -> Exception:
    said = f"{answer.status}: {answer.body[:120]!r}"
    if not any(name.encode() in answer.body for name in _REFUSALS.get(answer.status, ())):
        return WrongError(said)
    if answer.status == 503 and "retry-after" not in answer.headers:
        return WrongError(f"{said} without Retry-After")
    return RefusedError(said)


def _compare(found: object, expected: object, tolerance: float, where: str) -> None:
    """Compares two JSON values: numbers within a tolerance, everything else exactly."""
    if isinstance(expected, float) and isinstance(found, int | float):
        if abs(found - expected) > tolerance:
            raise WrongError(f"{where} is {found}, not {expected}")
    elif isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        for name, value in expected.items():
            _compare(found[name], value, tolerance, name)
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for one, other in zip(found, expected, strict=True):
            _compare(one, other, tolerance, where)
    elif found != expected:
        raise WrongError(f"{where} is {str(found)[:80]}, not {str(expected)[:80]}")
