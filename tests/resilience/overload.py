"""The default model under more than it can answer, beside unfair clients.

    python -m tests.resilience.overload [--only flood] [--only fairness] [--only door] …

Prints what came back. The status is 0 if no promise was broken.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import httpx

from tests.end_to_end.servers import ROOT, RunningService, service

_TOLERANCE = 0.03  # between alone and batched, in bfloat16
_PATIENCE = 120.0
_MOST_TIMES = 3.0  # the p99 of polite clients beside an attack
_REFUSALS = {503: "/problems/overloaded", 504: "/problems/timeout"}
_LONG = "The battery lasts a day, the screen is bright, and I would buy it again. " * 45
SENTENCES = [
    f"The {thing} {judgement}."
    for thing in ("plot", "cast", "battery", "service", "room")
    for judgement in ("is superb", "was a waste of time", "could not be better", "broke at once")
]


class Attack(NamedTuple):
    """What one client sends again and again: a GET if there is no content."""

    path: str
    content: object = None
    connections: int = 1


# Each of them is legal. The first two are more than fits before the deadline.
ATTACKS: dict[str, Attack] = {
    "256 steps": Attack("/attributions", {"sentence": _LONG, "steps": 256}),
    "256 long texts": Attack("/predict", {"sentences": [_LONG] * 256}),
    "16 steps": Attack("/attributions", {"sentence": _LONG, "steps": 16}),
    "40 long texts": Attack("/predict", {"sentences": [_LONG] * 40}),
    "240 short texts": Attack("/predict", {"sentences": SENTENCES * 12}),
    "attention": Attack("/attention", {"sentence": _LONG[:600]}),
    "importance": Attack("/importance", {"sentence": _LONG}),
}
# Work before admission: cheap to send, and refused or never queued.
AT_THE_DOOR: dict[str, Attack] = {
    "metrics": Attack("/metrics", connections=4),
    "1,000 wrong masks": Attack(
        "/predict",
        {"sentences": ["good"], "head_mask": [{"layer": "one", "head": []}] * 1000},
        connections=4,
    ),
    "256 blank items": Attack(
        "/predict", {"sentences": [" "] * 256, "on_error": "item"}, connections=16
    ),
    "words of 2 MB": Attack("/attention", {"sentences": ["a " * 3900] * 250, "level": "word"}),
    "2 MB of quotation marks": Attack(
        "/predict", {"sentences": ["“?" * 240_000], "granularity": "sentence"}, connections=2
    ),
}


@dataclass(slots=True)
class Outcome:
    """What became of requests: statuses, what was wrong, and seconds of right answers."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    @property
    def served(self) -> float:
        """Right answers a second."""
        return len(self.waits) / self.seconds

    def wait(self, percent: float) -> float:
        """The wait that this share of the right answers did not exceed (nearest rank)."""
        if not self.waits:
            return math.nan
        return sorted(self.waits)[-int(-len(self.waits) * percent // 100) - 1]

    async def ask(
        self,
        session: aiohttp.ClientSession,
        sentence: str,
        due: float,
        scores: dict[str, float] | None,
    ) -> None:
        """Sends one sentence, judges the answer and counts it."""
        try:
            async with session.post("/predict", json={"sentences": [sentence]}) as response:
                status, content = response.status, await response.json(content_type=None)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.wrong[type(error).__name__] += 1
            return
        self.statuses[status] += 1
        if status == 200:
            found = content["predictions"][0]["score"]
            if scores is None or abs(found - scores[sentence]) < _TOLERANCE:
                self.waits.append(time.perf_counter() - due)
            else:
                self.wrong["another score"] += 1
        elif content["type"] != _REFUSALS.get(status):
            self.wrong[f"{status}: {content['type']}"] += 1
        elif status == 503 and "Retry-After" not in response.headers:
            self.wrong["503 without Retry-After"] += 1

    def __str__(self) -> str:
        return (
            f"{dict(self.statuses)}, {self.served:.1f} right answers/s, wait p50 "
            f"{self.wait(50):.3f} s, p99 {self.wait(99):.3f} s, wrong: {dict(self.wrong) or 'none'}"
        )


def send(
    running: RunningService,
    *,
    seconds: float,
    scores: dict[str, float] | None = None,
    clients: int = 1,
    rate: float | None = None,
    pause: float = 0.0,
) -> Outcome:
    """Sends requests of one sentence, waits for all answers, and judges them by their scores.

    So many go out a second, or else each client pauses between an answer and its next request.
    """
    outcome = Outcome()

    async def ask(session: aiohttp.ClientSession, number: int, due: float) -> None:
        await outcome.ask(session, SENTENCES[number % len(SENTENCES)], due, scores)

    async def run() -> None:
        begin = time.perf_counter()
        session = aiohttp.ClientSession(
            running.url,
            connector=aiohttp.TCPConnector(limit=2000),  # more wait, as at a load balancer
            timeout=aiohttp.ClientTimeout(30.0),
        )

        async def client(number: int) -> None:
            while (due := time.perf_counter()) < begin + seconds:
                await ask(session, number, due)
                number += clients
                await asyncio.sleep(pause)

        async with session, asyncio.TaskGroup() as group:
            for number in range(clients if rate is None else round(rate * seconds)):
                if rate is None:
                    group.create_task(client(number))
                    continue
                due = begin + number / rate
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(ask(session, number, due))

    begin = time.perf_counter()
    asyncio.run(run())
    outcome.seconds = time.perf_counter() - begin
    return outcome


def flood(running: RunningService, *, seconds: float) -> list[str]:
    """Sends more than the service can answer, after a measurement; returns broken promises."""
    scores = {}
    with running.client() as client:
        for sentence in SENTENCES:
            answer = client.post("/predict", json={"sentences": [sentence]}).json()
            scores[sentence] = answer["predictions"][0]["score"]
    before = send(running, clients=64, seconds=seconds / 2, scores=scores)
    print(f"saturated: {before}", flush=True)
    memory = _megabytes(running)
    rate = 3 * before.served
    during = send(running, rate=rate, seconds=seconds, scores=scores)
    grown = _megabytes(running) - memory
    print(f"flooded at {rate:.0f}/s: {during}; memory grew by {grown:.0f} MB", flush=True)
    with running.client(**{"X-Request-Timeout": "0.5"}) as client:
        status = client.post("/predict", json={"sentences": SENTENCES[:1]}).status_code
    queued = running.metric("headlight_queue_tokens")
    after = send(running, clients=64, seconds=seconds / 2, scores=scores)
    print(f"saturated again: {after}", flush=True)
    return _broken(
        {
            "every answer is right, or a clean refusal": not (
                before.wrong or during.wrong or after.wrong
            ),
            "what cannot be answered is refused": during.statuses[503] > 0,
            "throughput stays above 0.9": during.served > 0.9 * min(before.served, after.served),
            "at most 2 % of the admitted are late": during.statuses[504]
            <= 0.02 * during.statuses[200],
            "memory grows by less than 30 MB": grown < 30,
            "the first request afterwards is answered, and nothing waits": (status, queued)
            == (200, 0),
        }
    )


def fairness(running: RunningService, *, seconds: float) -> list[str]:
    """Sends single sentences of polite clients beside attacks; returns broken promises."""
    broken = []
    usual = send(running, clients=4, seconds=seconds, pause=0.005).wait(99)
    for names in [*([name] for name in ATTACKS), [*ATTACKS]]:
        beside, statuses = _beside(
            running, names, seconds, lambda: send(running, clients=4, seconds=seconds, pause=0.005)
        )
        times = beside.wait(99) / usual
        print(f"{names}: {beside}; {times:.2f} times the p99 alone; attacker: {statuses}")
        broken += _broken(
            {
                f"{names}: no polite request is refused": set(beside.statuses) == {200},
                f"{names}: the p99 is at most {_MOST_TIMES} times that alone": times <= _MOST_TIMES,
                # What never fits is refused at once, and the rest is answered or refused.
                f"{names}: the attacker gets answers or refusals": set(statuses)
                <= {200, 413, 503, 504},
            }
        )
    return broken


def door(running: RunningService, *, seconds: float) -> list[str]:
    """Sends what costs time before admission; returns broken promises about who asks beside it.

    The 95th percentile of small requests may grow to four times or to 0.15 s, whichever is more;
    that of health to four times or 0.1 s.
    """

    def ask() -> tuple[float, float]:
        health: list[float] = []

        def probe() -> None:
            until = time.monotonic() + seconds
            with running.client() as client:
                while (began := time.monotonic()) < until:
                    client.get("/health/live").raise_for_status()
                    health.append(time.monotonic() - began)
                    time.sleep(0.02)

        with ThreadPoolExecutor(1) as pool:
            probing = pool.submit(probe)
            small = send(running, clients=2, seconds=seconds, pause=0.02)
            probing.result()
        waits = small.wait(95) if set(small.statuses) == {200} else math.inf
        return waits, sorted(health)[int(0.95 * len(health))]

    broken = []
    usual = ask()
    print(f"p95 of small requests and of health, in seconds: {usual}", flush=True)
    for name in AT_THE_DOOR:
        found, statuses = _beside(running, [name], seconds, ask)
        print(f"{name}: {found}; attacker: {statuses}", flush=True)
        is_small = all(
            now <= max(4 * before, least)
            for before, now, least in zip(usual, found, (0.15, 0.1), strict=True)
        )
        broken += _broken(
            {
                f"{name}: the p95 of small requests and of health stays small": is_small,
                f"{name}: the attacker gets answers or refusals": 500 not in statuses,
            }
        )
    return broken


def _broken(promises: dict[str, bool]) -> list[str]:
    return [promise for promise, holds in promises.items() if not holds]


def _beside(
    running: RunningService, names: Sequence[str], seconds: float, ask: Callable[[], Any]
) -> tuple[Any, Counter[int]]:
    """Asks beside attacks from another process; returns what was asked, and their statuses."""
    with ProcessPoolExecutor(1, get_context("spawn")) as attacker:
        attack = attacker.submit(_attack, running.url, names, seconds + 1)
        time.sleep(0.5)
        return ask(), attack.result()


def _attack(url: str, names: Sequence[str], seconds: float) -> Counter[int]:
    """Sends attacks again and again, each on its own connections; counts the statuses."""
    until = time.monotonic() + seconds

    def run(attack: Attack) -> Counter[int]:
        statuses: Counter[int] = Counter()
        method = "GET" if attack.content is None else "POST"
        content = json.dumps(attack.content, ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "accept": "application/*"}
        with httpx.Client(base_url=url, timeout=_PATIENCE) as client:
            while time.monotonic() < until:
                answer = client.request(method, attack.path, content=content, headers=headers)
                statuses[answer.status_code] += 1
                # In `AT_THE_DOOR` the refusals are the attack.
                time.sleep(0.02 * (attack in ATTACKS.values() and answer.status_code != 200))
        return statuses

    chosen = [{**ATTACKS, **AT_THE_DOOR}[name] for name in names]
    attacks = [attack for attack in chosen for _ in range(attack.connections)]
    with ThreadPoolExecutor(len(attacks)) as pool:
        return sum(pool.map(run, attacks), Counter())


def _megabytes(running: RunningService) -> float:
    return running.metric("headlight_process_resident_memory_bytes") / 1e6


CASES: dict[str, Callable[..., list[str]]] = {
    "flood": flood,
    "fairness": fairness,
    "door": door,
}


def main() -> int:
    """Runs the cases, each on a new service."""
    parser = argparse.ArgumentParser(description="Sends a service more than it can answer.")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", action="append", choices=list(CASES))
    options = parser.parse_args()
    # Service and client get half of the cores each, so that neither takes the other's.
    cores = sorted(os.sched_getaffinity(0))
    half = math.ceil(len(cores) / 2)
    broken = []
    for name in options.only or CASES:
        with tempfile.TemporaryDirectory() as folder:
            os.sched_setaffinity(0, cores[:half])  # the service inherits it
            limits = ("--dtype", "auto", "--threads", "0", "--request-timeout", "10")
            with service(options.checkpoint, Path(folder), *limits) as running:
                os.sched_setaffinity(0, cores[half:] or cores)
                broken += CASES[name](running, seconds=options.seconds)
    print(f"promises broken: {'; '.join(broken) or 'none'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
