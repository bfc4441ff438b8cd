"""Small predictions of polite clients, alone and beside all kinds of legal work of another client.

    python -m tests.resilience.fairness

starts the service with the default model. Before and after each attack the polite clients are
alone. Prints their waits, and the ratio of the p99 beside the attack to the mean of those before
and after. The status is 0 if no polite request was refused and no ratio is above 3.
"""

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.end_to_end.servers import ROOT, RunningService, service

_HOST = "127.0.0.1"
_PATIENCE = 120.0
_MOST_TIMES = 3.0
_LONG = "The battery lasts a day, the screen is bright, and I would buy it again. " * 45
_SHORT = [
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
    "240 short texts": ("/predict", {"sentences": _SHORT * 12}),
    "attention": ("/attention", {"sentence": _LONG[:600]}),
    "importance": ("/importance", {"sentence": _LONG}),
}
ALL = "all of them"


@dataclass(slots=True)
class Polite:
    """What polite clients got.

    Args:
        statuses: of their answers.
        waits: seconds of each.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    def wait(self, percent: float) -> float:
        """The wait in milliseconds that so many did not exceed (nearest rank)."""
        return 1e3 * sorted(self.waits)[-int(-len(self.waits) * percent // 100) - 1]


def ask_politely(port: int, *, clients: int, seconds: float) -> Polite:
    """Lets some clients send one sentence after the other, each on its connection.

    Args:
        port: of the service.
        clients: how many.
        seconds: for how long.
    """
    found = Polite()
    end = time.monotonic() + seconds

    def run(place: int) -> None:
        connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
        while time.monotonic() < end:
            place += 7
            body = json.dumps({"sentences": [_SHORT[place % len(_SHORT)]]})
            began = time.perf_counter()
            found.statuses[_post(connection, "/predict", body)] += 1
            found.waits.append(time.perf_counter() - began)
            time.sleep(0.005)
        connection.close()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@contextmanager
def attacking(port: int, names: Sequence[str]) -> Iterator[Counter[int]]:
    """Lets one client in a process of its own attack until the block ends.

    Args:
        port: of the service.
        names: of the attacks, each on a connection of its own.

    Yields:
        The statuses of its answers, once the block has ended.
    """
    context = get_context("spawn")
    stop = context.Event()
    queue: SimpleQueue[Counter[int] | None] = context.SimpleQueue()
    process = context.Process(target=_attack, args=(port, names, stop, queue))
    process.start()
    queue.get()  # its first requests are being sent
    statuses: Counter[int] = Counter()
    try:
        yield statuses
    finally:
        stop.set()
        statuses.update(queue.get() or {})
        process.join()


def _attack(
    port: int, names: Sequence[str], stop: Event, queue: "SimpleQueue[Counter[int] | None]"
) -> None:
    statuses: Counter[int] = Counter()

    def run(path: str, body: str) -> None:
        connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
        while not stop.is_set():
            status = _post(connection, path, body)
            statuses[status] += 1
            if status != 200:
                stop.wait(0.02)
        connection.close()

    requests = [(ATTACKS[name][0], json.dumps(ATTACKS[name][1])) for name in names]
    threads = [threading.Thread(target=run, args=request) for request in requests]
    for thread in threads:
        thread.start()
    queue.put(None)
    for thread in threads:
        thread.join()
    queue.put(statuses)


def _post(connection: http.client.HTTPConnection, path: str, body: str) -> int:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status


def measure(running: RunningService, *, clients: int, seconds: float, names: Sequence[str]) -> int:
    """Measures each attack; returns how many promises were broken."""
    broken = 0
    alone = [ask_politely(running.port, clients=clients, seconds=seconds)]
    for name in names:
        with attacking(running.port, list(ATTACKS) if name == ALL else [name]) as statuses:
            time.sleep(1.0)
            beside = ask_politely(running.port, clients=clients, seconds=seconds)
        alone.append(ask_politely(running.port, clients=clients, seconds=seconds))
        usual = statistics.mean(each.wait(99) for each in alone[-2:])
        refused = beside.statuses.total() - beside.statuses[200]
        times = beside.wait(99) / usual
        print(
            f"{name}: {beside.statuses.total()} polite requests, {refused} refused, p50 "
            f"{beside.wait(50):.1f} ms, p99 {beside.wait(99):.1f} ms, {times:.2f} times the p99 "
            f"of {usual:.1f} ms alone; the attacker got {dict(statuses)}",
            flush=True,
        )
        broken += refused > 0 or times > _MOST_TIMES
    print(
        f"alone: p50 {statistics.median(each.wait(50) for each in alone):.1f} ms, p99 "
        f"{', '.join(f'{each.wait(99):.1f}' for each in alone)} ms; promises broken: {broken}"
    )
    return broken


def main() -> int:
    """Starts the service and measures."""
    parser = argparse.ArgumentParser(description="Attacks a service beside polite clients.")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", action="append", choices=[*ATTACKS, ALL])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        threads = ("--dtype", "auto", "--threads", str(options.cores))
        with service(options.checkpoint, Path(folder), *threads) as running:
            broken = measure(
                running,
                clients=options.clients,
                seconds=options.seconds,
                names=options.only or [*ATTACKS, ALL],
            )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
