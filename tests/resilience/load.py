"""Asks a service what chance says, and judges each answer by an earlier one to the same text."""

import http.client
import io
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tests.containers.stack import Answer, ask

_TOLERANCE = 0.03  # between alone and batched, in bfloat16
_SAME = 2e-3  # between two derivatives in float32, with one thread or more
_SUM = 1e-5
_PAUSE = 0.02
_RETRY_SECONDS = 0.5
# `not-ready` is the balancer's, when no replica is there.
REFUSALS = {503: ("/problems/overloaded", "/problems/not-ready"), 504: ("/problems/timeout",)}
_STEPS = 8
SENTENCES = [
    f"The {thing} {judgement}."
    for thing in ("plot", "cast", "battery", "service", "room")
    for judgement in ("is superb", "was a waste of time", "could not be better", "broke at once")
]
_STORY = "The battery lasts a day, the screen is bright, and I would buy it again. " * 25
# Passes of many sizes: what a processor keeps for each size is part of what is watched.
_LONG = [" ".join(_STORY.split()[:words]) for words in (*range(20, 360, 17), 375)]
# Its weights, all layers and heads, are about as many as one answer may hold.
LARGE = " ".join(_STORY.split()[:100])
_EXPLAINED = [*SENTENCES[:8], *_LONG[:4]]
_REFUSED: tuple[tuple[str, object], ...] = (
    ("/predict", {"sentences": [" "]}),
    ("/predict", {"sentence": 1}),
    ("/attributions", {"sentence": "good", "steps": 257}),
    ("/attributions", {"sentence": "good", "label": "no such label"}),
    ("/importance", {"sentence": "good", "steps": 8}),
)


AttentionOptions = TypeVar("AttentionOptions")
Answered = TypeVar("Answered")


class WrongError(Exception):
    """An answer is not what it should be; the message says what it is."""


class RefusedError(WrongError):
    """The service has no room or no time, and says so as it should."""


@dataclass(slots=True)
class Tally:
    """Counts what came back; several threads may use it at once.

    Args:
        right: answers, by kind of request.
        refused: clean refusals, by kind of request.
        faults: everything else, and how often.
    """

    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: str, fault: str | None = None) -> None:
        """Counts one answer of a kind of request, or the fault of one."""
        with self._lock:
            if fault is None:
                self.right[kind] += 1
            else:
                self.faults[f"{kind}: {fault}"] += 1

    def count_refusal(self, kind: str) -> None:
        """Counts one refusal of a kind of request."""
        with self._lock:
            self.refused[kind] += 1

    @property
    def share_refused(self) -> float:
        """Refusals among all answers."""
        refused = self.refused.total()
        return refused / max(1, refused + self.right.total() + self.faults.total())


class Client:
    """Asks a service for everything that it can do.

    Args:
        port: of the service or of its balancer, on 127.0.0.1.
        tally: where answers are counted. Both may be changed.
    """

    def __init__(self, port: int, tally: Tally) -> None:
        self.port = port
        self.tally = tally
        model = _content(ask(port, "GET", "/model"))
        self._ends = sorted({0, model["num_layers"] - 1})
        self._positive = {text: _insist(self._predict, [text])[0] for text in (*SENTENCES, *_LONG)}
        self._attributions = {text: _insist(self._attribute, text) for text in _EXPLAINED}
        self._importance = {text: _insist(self._weigh_heads, text) for text in _EXPLAINED}

    def run(self, seed: int, stop: threading.Event) -> None:
        """Asks until it is told to stop."""
        chance = random.Random(seed)
        kinds = list(KINDS)
        weights = [weight for _, weight in KINDS.values()]
        pause = _PAUSE
        while not stop.wait(pause):
            was_refused = self.ask(chance.choices(kinds, weights=weights)[0], chance)
            pause = _RETRY_SECONDS if was_refused else _PAUSE

    def ask(self, kind: str, chance: random.Random) -> bool:
        """Sends one request of a kind, one of `KINDS`, and counts what comes back.

        Returns:
            Whether it was refused.
        """
        judge, _ = KINDS[kind]
        try:
            judge(self, chance)
        except RefusedError:
            self.tally.count_refusal(kind)
            return True
        except WrongError as error:
            self.tally.count(kind, str(error))
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.tally.count(kind, repr(error))
        else:
            self.tally.count(kind)
        return False

    def single(self, chance: random.Random) -> None:
        """One short sentence."""
        self._judge([chance.choice(SENTENCES)])

    def many(self, chance: random.Random) -> None:
        """Many short sentences in one request."""
        self._judge(chance.choices(SENTENCES, k=32))

    def long(self, chance: random.Random) -> None:
        """One text of any length."""
        self._judge([chance.choice(_LONG)])

    def attention_json(self, chance: random.Random) -> None:
        """Weights of the first and the last layer."""
        text = chance.choice([*SENTENCES, *_LONG[:4]])
        content = self._explain("/attention", text, {"layer": self._ends})
        weights = np.array(content["attention"])
        self._judge_weights(weights, len(content["tokens"]), content["prediction"], text)

    def attention_npz(self, chance: random.Random) -> None:
        """The same as an archive, for longer texts too."""
        text = chance.choice(_LONG[:6])
        request = {"sentence": text, "layer": self._ends, "format": "npz"}
        answer = ask(self.port, "POST", "/attention", request)
        _check_status(answer)
        with np.load(io.BytesIO(answer.body)) as archive:
            pairs = zip(archive["labels"], archive["probabilities"], strict=True)
            prediction = {"probabilities": {str(label): float(share) for label, share in pairs}}
            self._judge_weights(archive["attention"], len(archive["tokens"]), prediction, text)

    def attributions(self, chance: random.Random) -> None:
        """Integrated gradients."""
        text = chance.choice(_EXPLAINED)
        self._compare(self._attribute(text), self._attributions[text])

    def importance(self, chance: random.Random) -> None:
        """How much heads matter."""
        text = chance.choice(_EXPLAINED)
        self._compare(self._weigh_heads(text), self._importance[text])

    def refused(self, chance: random.Random) -> None:
        """What must be refused."""
        path, content = chance.choice(_REFUSED)
        answer = ask(self.port, "POST", path, content)
        _check_status(answer, 422)

    def _predict(self, texts: Sequence[str]) -> list[float]:
        content = _content(ask(self.port, "POST", "/predict", {"sentences": texts}))
        return [each["probabilities"]["positive"] for each in content["predictions"]]

    def _judge(self, texts: Sequence[str]) -> None:
        for found, text in zip(self._predict(texts), texts, strict=True):
            self._check_positive(found, text)

    def _check_positive(self, found: float, text: str) -> None:
        if abs(found - self._positive[text]) > _TOLERANCE:
            raise WrongError("another prediction")

    def _judge_weights(
        self, weights: np.ndarray[Any, Any], tokens: int, prediction: dict[str, Any], text: str
    ) -> None:
        if weights.shape[0] != len(self._ends) or weights.shape[2:] != (tokens, tokens):
            raise WrongError(f"weights of the shape {weights.shape} for {tokens} tokens")
        if np.abs(weights.sum(axis=-1) - 1.0).max() > _SUM:
            raise WrongError("weights that do not sum to 1")
        self._check_positive(prediction["probabilities"]["positive"], text)

    def _explain(self, path: str, text: str, wish: dict[str, object]) -> dict[str, Any]:
        return _content(ask(self.port, "POST", path, {"sentence": text, **wish}))

    def _attribute(self, text: str) -> np.ndarray[Any, Any]:
        wish: dict[str, object] = {"label": "positive", "steps": _STEPS}
        content = self._explain("/attributions", text, wish)
        found = np.array(content["attributions"])
        gap = content["value"] - content["baseline_value"] - found.sum() - content["gap"]
        if len(found) != len(content["tokens"]) or abs(gap) > _SAME:
            raise WrongError("attributions that do not fit together")
        return found

    def _weigh_heads(self, text: str) -> np.ndarray[Any, Any]:
        return np.array(self._explain("/importance", text, {"label": "positive"})["importance"])

    def _compare(self, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
        if found.shape != expected.shape or np.abs(found - expected).max() > _SAME:
            raise WrongError("other derivatives")


# What is asked, and how often beside the others.
KINDS: dict[str, tuple[Callable[[Client, random.Random], None], int]] = {
    "one sentence": (Client.single, 8),
    "32 sentences": (Client.many, 1),
    "a long text": (Client.long, 2),
    "attention as json": (Client.attention_json, 1),
    "attention as npz": (Client.attention_npz, 1),
    "attributions": (Client.attributions, 1),
    "importance": (Client.importance, 1),
    "bad requests": (Client.refused, 1),
}


def _insist(
    ask_for: Callable[[AttentionOptions], Answered], question: AttentionOptions
) -> Answered:
    """Asks until it is not refused."""
    while True:
        try:
            return ask_for(question)
        except RefusedError:
            time.sleep(_RETRY_SECONDS)


def _content(answer: Answer) -> dict[str, Any]:
    _check_status(answer)
    return answer.json()


def _check_status(answer: Answer, expected: int = 200) -> None:
    if answer.status == expected:
        return
    said = f"{answer.status}: {answer.body[:120]!r}"
    types = REFUSALS.get(answer.status, ())
    if not any(kind.encode() in answer.body for kind in types):
        raise WrongError(said)
    if answer.status == 503 and "retry-after" not in answer.headers:
        raise WrongError(f"{said} without Retry-After")
    raise RefusedError(said)
