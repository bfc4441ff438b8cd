"""Mixed load on two replicas, of which one is killed and restarted and the other has to stay flat.

    python -m tests.resilience.soak --minutes 20
    python -m tests.resilience.soak --plain --hours 8

Runs the compose file, or with `--plain` two processes behind HAProxy. Prints what came back, and
memory and open files of the replicas as time went on. The status is 0 if no answer was wrong or
lost, and if the memory of the replica that is never killed stayed flat after warm-up.
"""

import argparse
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.servers import ROOT
from tests.resilience.fleet import Fleet, container_fleet, plain_fleet
from tests.resilience.load import LARGE, Client, Tally
from tests.resilience.memory import Flatness, Sample, judge_memory
from tests.resilience.slow import SlowReader


@dataclass(frozen=True, slots=True)
class Options:
    """How long and how much.

    Args:
        minutes: of load.
        warm_up: minutes until memory is judged.
        clients: that ask at once.
        slow: readers beside them.
        pause: seconds between two disturbances, at least and at most.
        every: seconds between two samples of memory.
        seed: of what is asked and disturbed.
    """

    minutes: float
    warm_up: float
    clients: int
    slow: int
    pause: tuple[float, float] = (5.0, 20.0)
    every: float = 5.0
    seed: int = 0


class Soak:
    """One run.

    Args:
        fleet: both replicas are up.
        options: of the run.
    """

    def __init__(self, fleet: Fleet, options: Options) -> None:
        self.tally = Tally()
        self.samples: list[Sample] = []
        self.done: Counter[str] = Counter()
        self._fleet = fleet
        self._options = options
        self._elder, self._victim = fleet.replicas()
        self._begin = 0.0

    def run(self) -> Flatness:
        """Runs it all.

        Returns:
            Whether the elder's memory stayed flat.
        """
        options = self._options
        client = Client(self._fleet.port, self.tally)
        reader = SlowReader(self._fleet.port, LARGE)
        self._begin = time.monotonic()
        with _threads() as (spawn, stop):
            for number in range(options.clients):
                spawn(client.run, options.seed * 1000 + number, stop)
            for _ in range(options.slow):
                spawn(reader.run, self.tally, stop)
            spawn(self._watch, stop)
            self._disturb()
        end = time.monotonic() - self._begin
        return judge_memory(self.samples, warm_up=60 * options.warm_up, end=end)

    def _disturb(self) -> None:
        """Kills or restarts the victim again and again, and waits for it to be back in between."""
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
                self._fleet.restore()
            except RuntimeError as error:
                self.tally.count("a replica", str(error))

    def _watch(self, stop: threading.Event) -> None:
        """Takes samples of the elder, and prints both replicas once a minute."""
        printed = 0
        while not stop.wait(self._options.every):
            state = self._fleet.state(self._elder)
            seconds = time.monotonic() - self._begin
            if state is None:
                self.tally.count("the replica that nobody killed", "no answer to /metrics")
                continue
            self.samples.append(Sample(seconds, *state))
            if self.samples[0].started != self.samples[-1].started:
                self.tally.count("the replica that nobody killed", "started anew")
            if seconds // 60 > printed:
                printed = int(seconds // 60)
                states = (state, self._fleet.state(self._victim))
                shown = "; ".join(
                    f"{each[0] / 1e6:.0f} MB, {each[1]:.0f} open files" if each else "away"
                    for each in states
                )
                print(f"{seconds / 60:5.1f} min: {shown}", flush=True)


@contextmanager
def _threads() -> Iterator[tuple[Callable[..., None], threading.Event]]:
    """Threads that are told to stop when the block ends, and waited for."""
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


def report(soak: Soak, flatness: Flatness, *, most_refused: float) -> int:
    """Prints how a run went.

    Args:
        soak: that has ended.
        flatness: of the memory.
        most_refused: the share of refusals that is no fault.

    Returns:
        The status.
    """
    counts = ", ".join(f"{count} of {kind}" for kind, count in sorted(soak.tally.right.items()))
    share = soak.tally.share_refused
    minutes = soak.samples[-1].seconds / 60 if soak.samples else 0.0
    print(f"{minutes:.1f} min, {dict(soak.done)}; right: {counts}")
    print(f"memory of the replica that was never killed: {flatness}")
    print(f"refused: {100 * share:.2f} % {dict(soak.tally.refused) or ''}")
    print(f"wrong or lost: {dict(soak.tally.faults) or 'none'}")
    return 1 if soak.tally.faults or share > most_refused or not flatness.is_flat else 0


def main() -> int:
    """Starts the replicas and soaks them."""
    parser = argparse.ArgumentParser(description="Mixed load while a replica comes and goes.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--hours", type=float, help="instead of minutes")
    parser.add_argument("--warm-up", type=float, help="minutes until memory is judged; a quarter")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--slow", type=int, default=4, help="readers of a kilobyte a second")
    parser.add_argument(
        "--most-refused", type=float, default=0.0, help="share; more than 0 on a busy machine"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="processes instead of containers")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "default")
    given = parser.parse_args()
    minutes = given.minutes if given.hours is None else 60 * given.hours
    warm_up = min(minutes / 4, 30.0) if given.warm_up is None else given.warm_up
    options = Options(minutes, warm_up, given.clients, given.slow, seed=given.seed)
    # Replicas end with this process, also when it is told to end before its time.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    running = plain_fleet(given.checkpoint) if given.plain else container_fleet()
    with running as fleet:
        soak = Soak(fleet, options)
        return report(soak, soak.run(), most_refused=given.most_refused)


if __name__ == "__main__":
    sys.exit(main())
