"""The default model under more than it can answer, beside an unfair client and slow readers.

    python -m tests.resilience.overload [--only flood] [--only fairness] [--only readers]

Prints what came back. The status is 0 if no promise was broken.
"""

import argparse
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
from typing import Any

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
# Each of them is legal. The first two are more than fits before the deadline.
ATTACKS: dict[str, tuple[str, object]] = {
    "256 steps": ("/attributions", {"sentence": _LONG, "steps": 256}),
    "256 long texts": ("/predict", {"sentences": [_LONG] * 256}),
    "16 steps": ("/attributions", {"sentence": _LONG, "steps": 16}),
    "40 long texts": ("/predict", {"sentences": [_LONG] * 40}),
    "240 short texts": ("/predict", {"sentences": SENTENCES * 12}),
    "attention": ("/attention", {"sentence": _LONG[:600]}),
    "importance": ("/importance", {"sentence": _LONG}),
}
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
        if not set(statuses) <= {200, 422, 503, 504}:
            broken.append(f"{names}: the attacker gets answers or refusals")
    return broken


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

    def run(name: str) -> Counter[int]:
        statuses: Counter[int] = Counter()
        path, content = ATTACKS[name]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as client:
            while time.monotonic() < until:
                status = client.post(path, json=content).status_code
                statuses[status] += 1
                time.sleep(0.02 * (status != 200))
        return statuses

    with ThreadPoolExecutor(len(names)) as pool:
        return sum(pool.map(run, names), Counter())


def _megabytes(running: RunningService) -> float:
    return running.metric("headlight_process_resident_memory_bytes") / 1e6


CASES: dict[str, Callable[..., list[str]]] = {
    "flood": flood,
    "fairness": fairness,
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
