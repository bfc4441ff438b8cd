"""Mixed load on two replicas: one is killed and restarted, the memory of the other stays flat.

    python -m tests.resilience.soak --minutes 20

Prints what came back, and memory and open files of the replicas. The status is 0 if no answer was
wrong or lost, and the memory of the replica that is never killed stayed flat after warm-up.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.end_to_end.servers import ROOT
from tests.resilience.fleet import Fleet, State, running_fleet
from tests.resilience.load import Client, Tally
from tests.resilience.readers import slow_readers

_MOST_SPREAD = 0.03
_WINDOWS = 5
_FEWEST_SAMPLES = 5  # of a window, so that its median is not that of one moment
_SLOWLY_READ = {"sentence": "The battery lasts a day, and I would buy it again. " * 9}


@dataclass(frozen=True, slots=True)
class Options:
    """How long and how much.

    Args:
        minutes: the duration of the load.
        warm_up: minutes until memory is judged.
        clients: clients that ask at once.
        slow: slow readers beside them.
        pause: seconds between two disturbances, at least and at most.
        every: seconds between two samples of memory.
        seed: decides what is asked and disturbed.
    """

    minutes: float
    warm_up: float
    clients: int = 6
    slow: int = 4
    pause: tuple[float, float] = (5.0, 20.0)
    every: float = 5.0
    seed: int = 0


class Soak:
    """One run; both replicas of the fleet are up."""

    def __init__(self, fleet: Fleet, options: Options) -> None:
        self.tally = Tally()
        self.samples: list[tuple[float, State]] = []
        self.done: Counter[str] = Counter()
        self._fleet = fleet
        self._options = options
        self._elder, self._victim = 0, 1
        self._begin = 0.0

    def run(self) -> None:
        """Sends the load and disturbs the victim until the time is over."""
        options = self._options
        client = Client(self._fleet.port)
        self._begin = time.monotonic()
        readers = slow_readers(self._fleet.port, options.slow, rate=1000, body=_SLOWLY_READ)
        with readers as (statuses, _), _threads() as (spawn, stop):
            for number in range(options.clients):
                spawn(client.run, options.seed * 1000 + number, self.tally, stop)
            spawn(self._watch, stop)
            self._disturb()
        for status in statuses.keys() - {"200", "503"}:
            self.tally.count(self.tally.faults, f"a slow reader: {status}")

    def _disturb(self) -> None:
        """Kills or restarts the victim again and again, and waits until it is back in between."""
        chance = random.Random(self._options.seed)
        until = self._begin + 60 * self._options.minutes
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(*self._options.pause)))
            try:
                if chance.random() < 0.5:
                    self._fleet.kill(self._victim)
                    self.done["killed"] += 1
                else:
                    self._fleet.stop(self._victim)
                    self.done["restarted"] += 1
                self._fleet.start(self._victim)
            except RuntimeError as error:
                self.tally.count(self.tally.faults, f"a replica: {error}")

    def _watch(self, stop: threading.Event) -> None:
        """Takes samples of the elder, and prints one a minute."""
        printed = 0
        while not stop.wait(self._options.every):
            state = self._fleet.state(self._elder)
            seconds = time.monotonic() - self._begin
            if state is None or (self.samples and state.started != self.samples[0][1].started):
                self.tally.count(self.tally.faults, "the replica that nobody killed has ended")
                continue
            self.samples.append((seconds, state))
            if seconds // 60 > printed:
                printed = int(seconds // 60)
                memory = f"{state.memory / 1e6:.0f} MB, {state.files:.0f} open files"
                print(f"{seconds / 60:5.1f} min: {memory}", flush=True)

    def report(self, *, most_refused: float) -> bool:
        """Prints how the run went; returns whether it went well.

        Args:
            most_refused: the share of refusals that is no fault.
        """
        counts = ", ".join(f"{count} of {kind}" for kind, count in sorted(self.tally.right.items()))
        share = self.tally.share_refused
        seconds = [(at, state.memory) for at, state in self.samples]
        medians = window_medians(seconds, warm_up=60 * self._options.warm_up)
        is_flat = bool(medians) and max(medians) <= (1 + _MOST_SPREAD) * min(medians)
        shown = ", ".join(f"{each / 1e6:.0f}" for each in medians) or "too few samples"
        print(f"{dict(self.done)}; right: {counts}")
        print(f"memory is {'flat' if is_flat else 'NOT FLAT'}, medians in MB: {shown}")
        print(f"refused: {100 * share:.2f} % {dict(self.tally.refused) or ''}")
        print(f"wrong or lost: {dict(self.tally.faults) or 'none'}")
        return is_flat and share <= most_refused and not self.tally.faults


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


@contextmanager
def _threads() -> Iterator[tuple[Callable[..., None], threading.Event]]:
    """Yields a function that starts threads, and the event that stops them when the block ends."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def spawn(target: Callable[..., None], *arguments: object) -> None:
        threads.append(threading.Thread(target=target, args=arguments))
        threads[-1].start()

    try:
        yield spawn, stop
    finally:
        stop.set()
        for thread in threads:
            thread.join()


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
    given = parser.parse_args()
    warm_up = min(given.minutes / 4, 30.0) if given.warm_up is None else given.warm_up
    options = Options(given.minutes, warm_up, given.clients, given.slow, seed=given.seed)
    # Replicas end with this process, also on SIGTERM.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_fleet(given.checkpoint, Path(folder), "--dtype", "auto") as fleet,
    ):
        soak = Soak(fleet, options)
        soak.run()
    return 0 if soak.report(most_refused=given.most_refused) else 1


if __name__ == "__main__":
    sys.exit(main())
