"""Mixed load on two replicas: one is killed and restarted, the memory of the other stays flat.

    python -m tests.resilience.soak --minutes 20

Prints what came back, and the memory of the replica that is never killed. The status is 0 if no
answer was wrong or lost, and that memory stayed flat after warm-up.
"""

import argparse
import http.client
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx
import numpy as np

from tests.containers.stack import ask, await_replicas
from tests.deploy.balancers import Replicas, balancer
from tests.end_to_end.servers import ROOT
from tests.resilience.readers import slow_readers

_MOST_SPREAD = 0.03
_WINDOWS = 5
_FEWEST_SAMPLES = 5  # of a window, so that its median is not that of one moment
_ELDER, _VICTIM = 0, 1
_PAUSE, _RETRY_SECONDS = 0.02, 0.5
# `not-ready` is the balancer's, when no replica is there.
_REFUSALS = {503: (b"/problems/overloaded", b"/problems/not-ready"), 504: (b"/problems/timeout",)}
_STORY = ("The battery lasts a day, the screen is bright, and I would buy it again. " * 25).split()
# Passes of many sizes: what a processor keeps for each size is part of what is watched.
_TEXTS = [" ".join(_STORY[:words]) for words in (*range(3, 60, 3), *range(60, 360, 17), 375)]


class Question(NamedTuple):
    """A request, how far its two answers may be apart, and the status that it must have."""

    path: str
    body: dict[str, object]
    tolerance: float = 0.03  # in bfloat16
    status: int = 200


QUESTIONS = [
    *(Question("/predict", {"sentences": [text]}) for text in _TEXTS),
    Question("/predict", {"sentences": _TEXTS[:32]}),
    *(Question("/attention", {"sentence": text, "layer": [0]}) for text in _TEXTS[:24:4]),
    *(
        Question(path, {"sentence": text, "label": "positive"}, 2e-3)
        for path in ("/attributions", "/importance")
        for text in _TEXTS[:24:8]
    ),
    Question("/predict", {"sentences": [" "]}, status=422),
    Question("/attributions", {"sentence": "good", "steps": 257}, status=422),
]


class RefusedError(Exception):
    """The service has no room or no time, and says so as it should."""


class Soak:
    """One run against two replicas behind a balancer at a port of this machine."""

    def __init__(self, replicas: Replicas, port: int, *, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.samples: list[tuple[float, float]] = []  # seconds and bytes
        self._replicas, self._port, self._seed = replicas, port, seed
        self._stop = threading.Event()
        self._expected = [self._first(question) for question in QUESTIONS]

    def run(self, *, seconds: float, clients: int, slow: int) -> None:
        """Sends the load and kills or restarts one replica until the time is over."""
        body = {"sentence": " ".join(_STORY[:90])}
        begin = time.monotonic()
        readers = slow_readers(self._port, slow, rate=1000, body=body)
        with readers as statuses, ThreadPoolExecutor(clients + 1) as pool:
            threads = [pool.submit(self._ask, 1000 * self._seed + n) for n in range(clients)]
            threads.append(pool.submit(self._watch, begin))
            try:
                self._disturb(begin + seconds)
            finally:
                self._stop.set()
            for thread in threads:
                thread.result()
        self.faults.update(f"a slow reader: {each}" for each in statuses.keys() - {"200", "503"})

    def _first(self, question: Question) -> object:
        """The answer that all later ones are compared with."""
        while True:
            with suppress(RefusedError):
                return self._answer(question)
            time.sleep(_RETRY_SECONDS)

    def _answer(self, question: Question) -> object:
        answer = ask(self._port, question.path, question.body)
        if answer.status == question.status:
            return answer.json() if answer.status == 200 else None
        is_refusal = any(name in answer.body for name in _REFUSALS.get(answer.status, ()))
        if is_refusal and (answer.status == 504 or "retry-after" in answer.headers):
            raise RefusedError
        raise ValueError(f"{answer.status}: {answer.body[:120]!r}")

    def _ask(self, seed: int) -> None:
        """Asks at random, and compares each answer with the first one."""
        chance, pause = random.Random(seed), _PAUSE
        while not self._stop.wait(pause):
            number = chance.randrange(len(QUESTIONS))
            question, pause = QUESTIONS[number], _PAUSE
            try:
                found = self._answer(question)
                compare(found, self._expected[number], question.tolerance)
                self.counts[question.path] += 1
            except RefusedError:
                self.counts["refused"] += 1
                pause = _RETRY_SECONDS
            except (OSError, http.client.HTTPException, ValueError, AssertionError) as error:
                self.faults[f"{question.path}: {error!r}"[:200]] += 1

    def _disturb(self, until: float) -> None:
        chance = random.Random(self._seed)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(5, 20)))
            kills = chance.random() < 0.5
            status = self._replicas.end(_VICTIM, signal.SIGKILL if kills else signal.SIGTERM)
            self.counts["killed" if kills else "restarted"] += 1
            if status and not kills:
                self.faults[f"a stopped replica exited with {status}"] += 1
            self._replicas.start(_VICTIM)
            await_replicas(self._port, 2)

    def _watch(self, begin: float) -> None:
        """Notes the memory of the elder every five seconds."""
        elder = self._replicas.running[_ELDER]
        while not self._stop.wait(5.0):
            try:
                memory = elder.metric("headlight_process_resident_memory_bytes")
            except httpx.TransportError:
                self.faults["the replica that nobody killed has ended"] += 1
                continue
            self.samples.append((time.monotonic() - begin, memory))


def compare(found: object, expected: object, tolerance: float) -> None:
    """Compares two JSON values: numbers within a tolerance, everything else exactly."""
    if isinstance(expected, dict) and isinstance(found, dict):
        assert found.keys() == expected.keys(), list(found)
        for name, value in expected.items():
            compare(found[name], value, tolerance)
    elif isinstance(expected, list) and expected and not isinstance(expected[0], dict | str):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)  # type: ignore[call-overload]
    elif isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other, tolerance)
    elif isinstance(expected, float) and isinstance(found, int | float):
        assert abs(found - expected) <= tolerance, (found, expected)
    else:
        assert found == expected


def window_medians(samples: list[tuple[float, float]], *, warm_up: float) -> list[float]:
    """Returns the medians of windows of equal length after warm-up; none for too few samples.

    Args:
        samples: seconds and memory.
        warm_up: seconds that are left out.
    """
    kept = [memory for seconds, memory in samples if seconds >= warm_up]
    if len(kept) < _WINDOWS * _FEWEST_SAMPLES:
        return []
    return [median(window) for window in np.array_split(kept, _WINDOWS)]


def main() -> int:
    """Starts the replicas, soaks them and prints how it went."""
    parser = argparse.ArgumentParser(description="Mixed load while a replica comes and goes.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, help="minutes until memory is judged; a quarter")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--slow", type=int, default=4, help="readers of a kilobyte a second")
    parser.add_argument("--most-refused", type=float, default=0.0, help="share of the requests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    options = parser.parse_args()
    minutes = options.minutes
    warm_up = min(minutes / 4, 30.0) if options.warm_up is None else options.warm_up
    # Replicas end with this process, also on SIGTERM.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory() as name,
        Replicas(options.checkpoint, Path(name), "--dtype", "auto") as replicas,
        balancer("haproxy", replicas.ports, Path(name)) as front,
    ):
        await_replicas(front.port, 2)
        soak = Soak(replicas, front.port, seed=options.seed)
        soak.run(seconds=60 * minutes, clients=options.clients, slow=options.slow)
    medians = window_medians(soak.samples, warm_up=60 * warm_up)
    is_flat = bool(medians) and max(medians) <= (1 + _MOST_SPREAD) * min(medians)
    shown = ", ".join(f"{each / 1e6:.0f}" for each in medians) or "too few samples"
    asked = sum(count for name, count in soak.counts.items() if name not in ("killed", "restarted"))
    share = soak.counts["refused"] / max(1, asked)
    print(f"{dict(sorted(soak.counts.items()))}; refused {100 * share:.2f} %")
    print(f"memory is {'flat' if is_flat else 'NOT FLAT'}, medians in MB: {shown}")
    print(f"wrong or lost: {dict(soak.faults) or 'none'}")
    return 0 if is_flat and share <= options.most_refused and not soak.faults else 1


if __name__ == "__main__":
    sys.exit(main())
