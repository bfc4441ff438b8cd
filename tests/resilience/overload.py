"""The default model under more than it can answer, beside an unfair client and slow readers.

    python -m tests.resilience.overload [--only flood] [--only fairness] [--only door] …

Prints what came back. The status is 0 if no promise was broken.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.end_to_end.servers import ROOT, RunningService, service
from tests.resilience.readers import slow_readers
from tests.resilience.sending import IsRight, send

_TOLERANCE = 0.03  # between alone and batched, in bfloat16
_PATIENCE = 120.0
_MOST_TIMES = 3.0  # the p99 of polite clients beside an attack
_READERS = 40
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
_ANY = {**ATTACKS, **AT_THE_DOOR}
EACH_ATTACK: list[list[str]] = [*([name] for name in ATTACKS), [*ATTACKS]]


def flood(running: RunningService, *, seconds: float) -> list[str]:
    """Sends more than the service can answer, after a measurement; returns broken promises."""
    port, is_right = running.port, _judge(running)
    saturation: dict[str, Any] = {"clients": 64, "seconds": seconds / 2, "is_right": is_right}
    before = send(port, SENTENCES, **saturation)
    print(f"saturated: {before}", flush=True)
    memory = _megabytes(running)
    rate = 3 * before.served
    during = send(port, SENTENCES, rate=rate, seconds=seconds, is_right=is_right)
    grown = _megabytes(running) - memory
    print(f"flooded at {rate:.0f}/s: {during}; memory grew by {grown:.0f} MB", flush=True)
    with running.client(**{"X-Request-Timeout": "0.5"}) as client:
        status = client.post("/predict", json={"sentences": SENTENCES[:1]}).status_code
    queued = running.metric("headlight_queue_tokens")
    after = send(port, SENTENCES, **saturation)
    print(f"saturated again: {after}", flush=True)
    promises = {
        "every answer is right, or a clean refusal": not (
            before.wrong or during.wrong or after.wrong
        ),
        "what cannot be answered is refused": during.statuses[503] > 0,
        "throughput stays above 0.9": during.served > 0.9 * min(before.served, after.served),
        "at most 2 % of the admitted are late": during.statuses[504] <= 0.02 * during.statuses[200],
        "memory grows by less than 30 MB": grown < 30,
        "afterwards the first request is answered, and nothing waits": (status, queued) == (200, 0),
    }
    return [promise for promise, holds in promises.items() if not holds]


def fairness(running: RunningService, *, seconds: float) -> list[str]:
    """Sends single sentences of polite clients beside attacks; returns broken promises."""
    broken = []
    polite: dict[str, Any] = {
        "clients": 4,
        "seconds": seconds,
        "pause": 0.005,
        "is_right": lambda *_: True,
    }
    usual = send(running.port, SENTENCES, **polite).wait(99)
    for names in EACH_ATTACK:
        with ProcessPoolExecutor(1, get_context("spawn")) as attacker:
            attack = attacker.submit(_attack, running.port, names, seconds + 1)
            time.sleep(0.5)
            beside = send(running.port, SENTENCES, **polite)
            statuses = attack.result()
        times = beside.wait(99) / usual
        print(
            f"{names}: {beside}; {times:.2f} times the p99 alone; attacker: {statuses}", flush=True
        )
        if set(beside.statuses) != {200}:
            broken.append(f"{names}: no polite request is refused")
        if times > _MOST_TIMES:
            broken.append(f"{names}: the p99 is at most {_MOST_TIMES} times that alone")
        # What never fits is refused at once, and the rest is answered or refused.
        if not set(statuses) <= {200, 413, 503, 504}:
            broken.append(f"{names}: the attacker gets answers or refusals")
    return broken


def door(
    running: RunningService, *, seconds: float, most_times: float = 4.0, least: float = 0.1
) -> list[str]:
    """Sends what costs time before admission; returns broken promises about who asks beside it.

    The 95th percentile of small requests may grow to `most_times` or to `least` and a half seconds,
    whichever is more; that of health to `most_times` or `least`.
    """
    broken = []
    usual = _beside(running.port, seconds)
    print(f"without an attack: {_both(usual)}", flush=True)
    for name in AT_THE_DOOR:
        with ProcessPoolExecutor(1, get_context("spawn")) as attacker:
            attack = attacker.submit(_attack, running.port, [name], seconds + 1)
            time.sleep(0.5)
            found = _beside(running.port, seconds)
            statuses = attack.result()
        print(f"{name}: {_both(found)}; attacker: {statuses}", flush=True)
        for what, before, now, bound in zip(
            ("small requests", "health"), usual, found, (1.5 * least, least), strict=True
        ):
            if not now <= max(most_times * before, bound):
                broken.append(f"{name}: the p95 of {what} stays small")
        if 500 in statuses:
            broken.append(f"{name}: the attacker gets answers or refusals")
    return broken


def _beside(port: int, seconds: float) -> tuple[float, float]:
    """Returns the 95th percentiles of the waits of small polite requests and of health."""
    health: list[float] = []

    def probe() -> None:
        until = time.monotonic() + seconds
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as client:
            while (began := time.monotonic()) < until:
                client.get("/health/live").raise_for_status()
                health.append(time.monotonic() - began)
                time.sleep(0.02)

    with ThreadPoolExecutor(1) as pool:
        probing = pool.submit(probe)
        small = send(
            port, SENTENCES, clients=2, seconds=seconds, pause=0.02, is_right=lambda *_: True
        )
        probing.result()
    if set(small.statuses) != {200}:
        return math.inf, sorted(health)[int(0.95 * len(health))]
    return small.wait(95), sorted(health)[int(0.95 * len(health))]


def _both(waits: tuple[float, float]) -> str:
    return f"p95 of small requests {waits[0] * 1000:.0f} ms, of health {waits[1] * 1000:.0f} ms"


def readers(running: RunningService, *, seconds: float) -> list[str]:
    """Asks for large answers and reads them slowly; returns broken promises."""
    before = most = _megabytes(running)
    body = {"sentence": "the plot drags but the cast is superb " * 18}
    with slow_readers(running.port, _READERS, rate=1000, body=body) as (statuses, ends):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            most = max(most, _megabytes(running))
            time.sleep(0.5)
        with running.client() as client:
            small = client.post("/predict", json={"sentences": ["good"]}).status_code
    print(
        f"{_READERS} slow readers: memory {before:.0f} MB before, {most:.0f} at most; statuses "
        f"{dict(statuses)}; ended meanwhile {dict(ends)}; a prediction beside them: {small}"
    )
    promises = {
        "a small prediction is answered beside slow readers": small == 200,
        "slow readers get answers or refusals": set(statuses) <= {"200", "503"},
        "no slow reader waits for ever": not ends["silent"],
    }
    return [promise for promise, holds in promises.items() if not holds]


def _judge(running: RunningService) -> IsRight:
    """Returns a judge that knows the score of each sentence when nothing else is asked."""
    scores = {}
    with running.client() as client:
        for sentence in SENTENCES:
            content = client.post("/predict", json={"sentences": [sentence]}).json()
            scores[sentence] = content["predictions"][0]["score"]
    return lambda sentence, found: abs(found["score"] - scores[sentence]) < _TOLERANCE


def _attack(port: int, names: Sequence[str], seconds: float) -> Counter[int]:
    """Sends attacks one after the other, each name on its own connection; counts the statuses."""
    until = time.monotonic() + seconds

    def run(attack: Attack) -> Counter[int]:
        statuses: Counter[int] = Counter()
        method, body = ("GET", None) if attack.content is None else ("POST", attack.content)
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "accept": "application/*"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as client:
            while time.monotonic() < until:
                answer = client.request(method, attack.path, content=content, headers=headers)
                statuses[answer.status_code] += 1
                # In `AT_THE_DOOR` the refusals are the attack.
                time.sleep(0.02 * (attack in ATTACKS.values() and answer.status_code != 200))
        return statuses

    attacks = [_ANY[name] for name in names for _ in range(_ANY[name].connections)]
    with ThreadPoolExecutor(len(attacks)) as pool:
        return sum(pool.map(run, attacks), Counter())


def _megabytes(running: RunningService) -> float:
    return running.metric("headlight_process_resident_memory_bytes") / 1e6


CASES: dict[str, Callable[..., list[str]]] = {
    "flood": flood,
    "fairness": fairness,
    "door": door,
    "readers": readers,
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
