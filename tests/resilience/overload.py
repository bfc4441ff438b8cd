"""The default model under three times as many requests as it can answer, for a minute.

    python -m tests.resilience.overload

Finds out how much the service can answer, then sends three times that, then again what it can,
and prints what came back. Service and client get half of the cores each, so that the one does not
take the other's.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.end_to_end.servers import ROOT, RunningService, service
from tests.resilience.flood import Outcome, flood, saturate

_CLIENTS = 64
_TOLERANCE = 0.03  # between alone and batched, in bfloat16
_MEMORY = "headlight_process_resident_memory_bytes"
_FILES = "headlight_process_open_fds"
_WORDS = ("plot", "cast", "battery", "service", "ending", "room", "price", "voice", "story")
_JUDGEMENTS = (
    "is superb from the first minute to the last, and I would gladly see all of it once more",
    "was a waste of time and of money, and nobody I know has had a good word to say about it",
    "could not be better, whatever those may say who have never taken a closer look at it",
    "broke my patience within an hour, and what came after that was not worth waiting for",
)


class Watched:
    """Memory and open files of a service, looked at every second."""

    def __init__(self) -> None:
        self.memory: list[float] = []
        self.files: list[float] = []

    @contextmanager
    def watching(self, running: RunningService) -> Iterator[None]:
        """Looks for as long as the block lasts."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(1.0):
                self.memory.append(running.metric(_MEMORY) / 1e6)
                self.files.append(running.metric(_FILES))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()


class Judge:
    """Knows what the service says of a sentence when nothing else is asked."""

    def __init__(self, client: httpx.Client, sentences: list[str]) -> None:
        self._scores: dict[str, float] = {}
        for sentence in sentences:
            answer = client.post("/predict", json={"sentences": [sentence]}).json()
            self._scores[sentence] = answer["predictions"][0]["probabilities"]["positive"]

    def is_right(self, sentence: str, prediction: dict[str, Any]) -> bool:
        """Whether a prediction is what its sentence gets alone, but for rounding."""
        found: float = prediction["probabilities"]["positive"]
        return abs(found - self._scores[sentence]) < _TOLERANCE


def describe(name: str, outcome: Outcome, *, offered: float | None = None) -> str:
    """One line on a phase."""
    statuses = ", ".join(
        f"{count} of {status}" for status, count in sorted(outcome.statuses.items())
    )
    at = f" at {offered:.0f}/s" if offered else ""
    return (
        f"{name}: {outcome.offered} requests{at} in {outcome.seconds:.1f} s, {statuses}, "
        f"{outcome.served:.1f} right answers/s, wait p50 {outcome.wait(50):.2f} s, p99 "
        f"{outcome.wait(99):.2f} s, wrong: {dict(outcome.wrong) or 'none'}"
    )


def measure(running: RunningService, *, seconds: float, times: float) -> int:
    """Runs all phases; returns how many of the promises were broken."""
    sentences = [f"The {word} {judgement}." for word in _WORDS for judgement in _JUDGEMENTS]
    with running.client() as client:
        is_right = Judge(client, sentences).is_right
        watched = Watched()
        port = running.port
        saturate(port, sentences, clients=_CLIENTS, seconds=3.0, is_right=is_right)
        with watched.watching(running):
            before = saturate(
                port, sentences, clients=_CLIENTS, seconds=seconds / 3, is_right=is_right
            )
            print(describe("saturated", before), flush=True)
            rate = times * before.served
            during = flood(port, sentences, rate=rate, seconds=seconds, is_right=is_right)
            print(describe("flooded", during, offered=rate), flush=True)
            started = time.perf_counter()
            client.post(
                "/predict", json={"sentences": sentences[:1]}, headers={"X-Request-Timeout": "1"}
            ).raise_for_status()
            recovered = time.perf_counter() - started
            after = saturate(
                port, sentences, clients=_CLIENTS, seconds=seconds / 3, is_right=is_right
            )
            print(describe("saturated again", after), flush=True)
    share = during.served / max(before.served, after.served)
    print(
        f"throughput while flooded: {share:.2f} of the best; first answer after it: "
        f"{recovered * 1e3:.0f} ms; memory {watched.memory[0]:.0f} MB at first, "
        f"{max(watched.memory):.0f} at most, {watched.memory[-1]:.0f} at last; open files "
        f"{watched.files[0]:.0f}, {max(watched.files):.0f}, {watched.files[-1]:.0f}"
    )
    late = during.statuses[504]
    broken = [
        bool(before.wrong or during.wrong or after.wrong),
        share < 0.9,
        late > 0.01 * during.statuses[200],
        recovered > 1.0,
    ]
    print(f"late among the admitted: {late}; promises broken: {sum(broken)}")
    return sum(broken)


def main() -> int:
    """Starts the service and measures."""
    parser = argparse.ArgumentParser(description="Sends a service more than it can answer.")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--times", type=float, default=3.0)
    parser.add_argument("--request-timeout", default="10")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cores = sorted(os.sched_getaffinity(0))
        half = (len(cores) + 1) // 2
        os.sched_setaffinity(0, cores[:half])  # the service inherits it
        limits = ("--dtype", "auto", "--threads", "0", "--request-timeout", options.request_timeout)
        with service(options.checkpoint, Path(folder), *limits) as running:
            os.sched_setaffinity(0, cores[half:] or cores)
            broken = measure(running, seconds=options.seconds, times=options.times)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
