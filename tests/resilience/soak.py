"""Twenty minutes of mixed load on the compose file while its replicas are killed and restarted.

    python -m tests.resilience.soak --minutes 20

Prints what came back, and memory and open files of the replicas as time went on. The status is 0
if no answer was wrong or lost.
"""

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.containers.engine import CommandError, Engine, running_engine
from tests.containers.stack import Answer, Stack, running_stack
from tests.containers.standin import standin_engine

_IMAGE = "headlight:soaked"
_TOLERANCE = 0.03  # between alone and batched, in bfloat16
_LONG = "The battery lasts a day, the screen is bright, and I would buy it again. " * 25
_SENTENCES = [
    f"The {thing} {judgement}."
    for thing in ("plot", "cast", "battery", "service", "room")
    for judgement in ("is superb", "was a waste of time", "could not be better", "broke at once")
]
_STATE = """
import urllib.request
text = urllib.request.urlopen("http://127.0.0.1:8000/metrics", timeout=5).read().decode()
values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
print(values["headlight_process_resident_memory_bytes"], values["headlight_process_open_fds"])
"""


@dataclass(slots=True)
class Tally:
    """What came back.

    Args:
        right: answers, by kind of request.
        faults: everything else, and how often.
    """

    right: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class Client:
    """Asks what chance says, and judges what comes back.

    Args:
        stack: that is asked.
        tally: where it is counted.
    """

    def __init__(self, stack: Stack, tally: Tally) -> None:
        self._stack = stack
        self._tally = tally
        self._lock = threading.Lock()
        self._expected = {text: self._positive(text) for text in (*_SENTENCES, _LONG)}

    def run(self, seed: int, stop: threading.Event) -> None:
        """Goes on until it is told to stop."""
        chance = random.Random(seed)
        kinds: list[Callable[[random.Random], tuple[str, str | None]]] = [
            self._single,
            self._many,
            self._long,
            self._attention,
            self._refused,
        ]
        while not stop.wait(0.02):
            ask = chance.choices(kinds, weights=[8, 1, 1, 1, 1])[0]
            try:
                kind, fault = ask(chance)
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                kind, fault = "", f"{ask.__name__}: {error!r}"
            with self._lock:
                if fault is None:
                    self._tally.right[kind] += 1
                else:
                    self._tally.faults[fault] += 1

    def _positive(self, text: str) -> float:
        return _positives(self._stack.predict(text))[0]

    def _single(self, chance: random.Random) -> tuple[str, str | None]:
        return "one sentence", self._judge([chance.choice(_SENTENCES)])

    def _many(self, chance: random.Random) -> tuple[str, str | None]:
        return "32 sentences", self._judge(chance.choices(_SENTENCES, k=32))

    def _long(self, _: random.Random) -> tuple[str, str | None]:
        return "a long text", self._judge([_LONG])

    def _judge(self, texts: list[str]) -> str | None:
        answer = self._stack.predict(*texts)
        if answer.status != 200:
            return f"{answer.status}: {answer.body[:120]!r}"
        pairs = zip(_positives(answer), texts, strict=True)
        if any(abs(found - self._expected[text]) > _TOLERANCE for found, text in pairs):
            return "a wrong answer"
        return None

    def _attention(self, chance: random.Random) -> tuple[str, str | None]:
        text = chance.choice(_SENTENCES)
        answer = self._stack.request("POST", "/attention", {"sentence": text, "layer": [0, 5]})
        if answer.status != 200:
            return "", f"{answer.status}: {answer.body[:120]!r}"
        rows = [row for layer in answer.json()["attention"] for head in layer for row in head]
        sound = all(abs(sum(row) - 1.0) < 1e-5 for row in rows)
        return "attention", None if sound else "weights that do not sum to 1"

    def _refused(self, chance: random.Random) -> tuple[str, str | None]:
        content, status = chance.choice([({"sentences": [" "]}, 422), ({"sentence": 1}, 422)])
        answer = self._stack.request("POST", "/predict", content)
        return "bad requests", None if answer.status == status else f"{answer.status} for a bad one"


def _positives(answer: Answer) -> list[float]:
    content: dict[str, Any] = json.loads(answer.body)
    return [each["probabilities"]["positive"] for each in content["predictions"]]


def disturb(stack: Stack, chance: random.Random, stop: threading.Event) -> Counter[str]:
    """Kills or restarts a replica again and again, and waits for it to be back in between."""
    done: Counter[str] = Counter()
    while not stop.wait(chance.uniform(5, 20)):
        replica = chance.choice(stack.replicas())
        if chance.random() < 0.5:
            stack.engine.docker("kill", replica)
            done["killed"] += 1
        else:
            stack.engine.docker("stop", "--time", "20", replica)
            done["restarted"] += 1
        stack.engine.compose("up", "--detach", "--no-build", "--no-recreate", "--wait")
        stack.await_replicas(2)
    return done


def watch(stack: Stack, begin: float, stop: threading.Event) -> None:
    """Prints memory and open files of each replica now and then."""
    while not stop.wait(60):
        states = []
        for replica in stack.replicas():
            try:
                memory, files = stack.engine.python(replica, _STATE).split()
                states.append(f"{float(memory) / 1e6:.0f} MB, {float(files):.0f} open files")
            except (CommandError, ValueError):
                states.append("away")
        print(f"{(time.monotonic() - begin) / 60:5.1f} min: {'; '.join(states)}", flush=True)


def soak(stack: Stack, *, minutes: float, clients: int, seed: int) -> Tally:
    """Runs it all for so many minutes.

    Args:
        stack: up and healthy.
        minutes: how long.
        clients: that ask at once.
        seed: of what is asked and disturbed.
    """
    tally = Tally()
    client = Client(stack, tally)
    stop, quiet = threading.Event(), threading.Event()
    begin = time.monotonic()
    threads = [
        threading.Thread(target=client.run, args=(seed * 1000 + number, stop))
        for number in range(clients)
    ]
    threads.append(threading.Thread(target=watch, args=(stack, begin, stop)))
    for thread in threads:
        thread.start()
    timer = threading.Timer(60 * minutes, quiet.set)
    timer.start()
    try:
        done = disturb(stack, random.Random(seed), quiet)
    finally:
        timer.cancel()
        stop.set()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - begin
    counts = ", ".join(f"{count} of {kind}" for kind, count in sorted(tally.right.items()))
    print(f"{seconds / 60:.1f} min, {dict(done)}; right: {counts}")
    print(f"wrong or lost: {dict(tally.faults) or 'none'}")
    return tally


@contextmanager
def _engine() -> Iterator[Engine]:
    running = running_engine()
    if running is not None:
        yield running
    else:
        with standin_engine() as standin:
            yield standin


def main() -> int:
    """Builds the image, starts the compose file and soaks it."""
    parser = argparse.ArgumentParser(description="Mixed load while replicas come and go.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with _engine() as engine:
        engine.docker("build", "--tag", _IMAGE, ".")
        with running_stack(engine, _IMAGE) as stack:
            tally = soak(stack, minutes=options.minutes, clients=options.clients, seed=options.seed)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
