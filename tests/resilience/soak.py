"""Mixed load on two replicas: one is killed and restarted, the memory of the other stays flat.

    python -m tests.resilience.soak --minutes 20

Prints what came back, and the memory of the replica that is never killed. The status is 0 if no
answer was wrong or lost, and that memory stayed flat after warm-up.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx

from tests.containers.stack import ask
from tests.deploy.balancers import Replicas, balancer
from tests.end_to_end.servers import ROOT
from tests.resilience.load import Client, Tally
from tests.resilience.readers import slow_readers

_PATIENCE = 120.0
_MOST_SPREAD = 0.03
_WINDOWS = 5
_FEWEST_SAMPLES = 5  # of a window, so that its median is not that of one moment
_SLOWLY_READ = {"sentence": "The battery lasts a day, and I would buy it again. " * 9}
_ELDER, _VICTIM = 0, 1
_PAUSE_SECONDS = (5.0, 20.0)  # between two disturbances, at least and at most
_SAMPLE_SECONDS = 5.0


class Soak:
    """One run against two replicas behind a balancer.

    Args:
        replicas: both run.
        port: the port of the balancer on 127.0.0.1.
        minutes: the duration of the load.
        clients: clients that ask at once.
        slow: slow readers beside them.
        seed: decides what is asked and disturbed.
    """

    def __init__(
        self,
        replicas: Replicas,
        port: int,
        *,
        minutes: float,
        clients: int,
        slow: int,
        seed: int,
    ) -> None:
        self.tally = Tally()
        self.samples: list[tuple[float, float]] = []  # seconds and bytes
        self.done: Counter[str] = Counter()
        self._replicas, self._port = replicas, port
        self._seconds, self._clients, self._slow = 60 * minutes, clients, slow
        self._seed = seed

    def run(self) -> None:
        """Sends the load and disturbs one replica until the time is over."""
        client, stop = Client(self._port), threading.Event()
        begin = time.monotonic()
        readers = slow_readers(self._port, self._slow, rate=1000, body=_SLOWLY_READ)
        with readers as (statuses, _), ThreadPoolExecutor(self._clients + 1) as pool:
            seeds = range(1000 * self._seed, 1000 * self._seed + self._clients)
            threads = [pool.submit(client.run, seed, self.tally, stop) for seed in seeds]
            threads.append(pool.submit(self._watch, begin, stop))
            try:
                self._disturb(begin + self._seconds)
            finally:
                stop.set()
            for thread in threads:
                thread.result()
        for status in statuses.keys() - {"200", "503"}:
            self._fault(f"a slow reader: {status}")

    def _fault(self, what: str) -> None:
        self.tally.count(self.tally.faults, what)

    def _disturb(self, until: float) -> None:
        """Kills or restarts the victim again and again, and waits until it is back in between."""
        chance = random.Random(self._seed)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(*_PAUSE_SECONDS)))
            kills = chance.random() < 0.5
            status = self._replicas.end(_VICTIM, signal.SIGKILL if kills else signal.SIGTERM)
            self.done["killed" if kills else "restarted"] += 1
            if status and not kills:
                self._fault(f"a stopped replica exited with {status}")
            self._replicas.start(_VICTIM)
            await_both(self._port)

    def _watch(self, begin: float, stop: threading.Event) -> None:
        """Takes samples of the elder, and prints one a minute."""
        elder = self._replicas.running[_ELDER]
        while not stop.wait(_SAMPLE_SECONDS):
            seconds = time.monotonic() - begin
            try:
                memory = elder.metric("headlight_process_resident_memory_bytes")
            except httpx.TransportError:
                self._fault("the replica that nobody killed has ended")
                continue
            last = self.samples[-1][0] if self.samples else 0.0
            self.samples.append((seconds, memory))
            if seconds // 60 > last // 60:
                print(f"{seconds / 60:5.1f} min: {memory / 1e6:.0f} MB", flush=True)

    def report(self, *, warm_up: float, most_refused: float) -> bool:
        """Prints how the run went; returns whether it went well.

        Args:
            warm_up: minutes until memory is judged.
            most_refused: the share of refusals that is no fault.
        """
        tally = self.tally
        counts = ", ".join(f"{count} of {kind}" for kind, count in sorted(tally.right.items()))
        refused = tally.refused.total()
        share = refused / max(1, refused + tally.right.total() + tally.faults.total())
        medians = window_medians(self.samples, warm_up=60 * warm_up)
        is_flat = bool(medians) and max(medians) <= (1 + _MOST_SPREAD) * min(medians)
        shown = ", ".join(f"{each / 1e6:.0f}" for each in medians) or "too few samples"
        print(f"{dict(self.done)}; right: {counts}")
        print(f"memory is {'flat' if is_flat else 'NOT FLAT'}, medians in MB: {shown}")
        print(f"refused: {100 * share:.2f} % {dict(tally.refused) or ''}")
        print(f"wrong or lost: {dict(tally.faults) or 'none'}")
        return is_flat and share <= most_refused and not tally.faults


def window_medians(samples: Sequence[tuple[float, float]], *, warm_up: float) -> list[float]:
    """Returns the medians of windows of equal length after warm-up; none for too few samples.

    Args:
        samples: seconds and memory.
        warm_up: seconds that are left out.
    """
    if not samples or samples[-1][0] <= warm_up:
        return []
    width = (samples[-1][0] - warm_up) / _WINDOWS
    windows: list[list[float]] = [[] for _ in range(_WINDOWS)]
    for seconds, memory in samples:
        if seconds >= warm_up:
            windows[min(int((seconds - warm_up) / width), _WINDOWS - 1)].append(memory)
    if min(map(len, windows)) < _FEWEST_SAMPLES:
        return []
    return [median(window) for window in windows]


def await_both(port: int) -> None:
    """Waits until answers come from both replicas."""
    until = time.monotonic() + _PATIENCE
    seen: set[str | None] = set()
    while len(seen) != 2 or None in seen:
        if time.monotonic() > until:
            raise RuntimeError(f"answers come from {seen}, not from two replicas")
        content = {"sentences": ["good"]}
        with suppress(OSError):  # the balancer may not listen yet
            seen = {ask(port, "POST", "/predict", content).replica for _ in range(8)}


@contextmanager
def running_fleet(checkpoint: Path, folder: Path, *options: str) -> Iterator[tuple[Replicas, int]]:
    """Runs two replicas behind HAProxy until the block ends; yields them and HAProxy's port."""
    with (
        Replicas(checkpoint, folder, *options) as replicas,
        balancer("haproxy", replicas.ports, folder) as front,
    ):
        await_both(front.port)
        yield replicas, front.port


def main() -> int:
    """Starts the replicas and soaks them."""
    parser = argparse.ArgumentParser(description="Mixed load while a replica comes and goes.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, help="minutes until memory is judged; a quarter")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--slow", type=int, default=4, help="readers of a kilobyte a second")
    parser.add_argument(
        "--most-refused", type=float, default=0.0, help="share; more than 0 on a busy machine"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    options = parser.parse_args()
    minutes = options.minutes
    warm_up = min(minutes / 4, 30.0) if options.warm_up is None else options.warm_up
    load = {"clients": options.clients, "slow": options.slow, "seed": options.seed}
    # Replicas end with this process, also on SIGTERM.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_fleet(options.checkpoint, Path(folder), "--dtype", "auto") as fleet,
    ):
        soak = Soak(*fleet, minutes=minutes, **load)
        soak.run()
    return 0 if soak.report(warm_up=warm_up, most_refused=options.most_refused) else 1


if __name__ == "__main__":
    sys.exit(main())
