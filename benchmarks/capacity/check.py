"""Measures the real service beside the model: what a request costs, and answers at fixed rates."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.capacity.arrivals import poisson
from benchmarks.capacity.load import as_answered, at_moments
from benchmarks.capacity.quiet import busy_seconds, wait_until_quiet
from benchmarks.capacity.record import Handling, Load, Repetition
from benchmarks.errors import BenchmarkError
from benchmarks.open_loop import percentile
from benchmarks.servers import Program, Server, serve
from benchmarks.texts import SENTENCES, numbered

SHARES = (0.3, 0.5, 0.7, 0.9, 1.0, 1.2)
# Short, so that an overloaded replica soon refuses as many requests as it always would.
DEADLINE = 1.0
_CONNECTIONS = 64
_FIRST_NUMBER = 200_000
_IDLE_REQUESTS = 300
_WARM_UP_REQUESTS = 1_000
# The share of a load's requests before measuring.
WARM_UP_SHARE = 0.2
_PROC = Path("/proc")

Report = Callable[[str], None]


class Check:
    """Asks one running service.

    Args:
        server: to ask.
        seconds: of each load.
        patience: seconds to wait for a quiet machine before each load.
        report: is called with each next step.
    """

    def __init__(self, server: Server, *, seconds: float, patience: float, report: Report) -> None:
        self._server = server
        self._patience = patience
        self._seconds = seconds
        self._report = report
        self._next = _FIRST_NUMBER

    def measure(self, *, seed: int) -> Repetition:
        """Measures saturation, the cost of a request, and answers at all rates.

        Args:
            seed: of the moments at which requests are sent.
        """
        port = self._server.port
        self._report("warming up")
        first = as_answered(port, self._texts(_WARM_UP_REQUESTS), _CONNECTIONS)
        rate = _WARM_UP_REQUESTS / first.seconds
        self._report("one request after the other")
        wait_until_quiet(self._patience)
        idle = as_answered(port, self._texts(_IDLE_REQUESTS), 1)
        self._report("saturation")
        count = max(1, round(rate * self._seconds))
        wait_until_quiet(self._patience)
        loop, others = self._loop_seconds(), self._others()
        full = as_answered(port, self._texts(count), _CONNECTIONS)
        handling = Handling(
            (self._loop_seconds() - loop) / count,
            full.client_seconds / count,
            percentile(idle.latencies, 50),
        )
        saturation = count / full.seconds
        others = (self._others() - others - full.client_seconds) / full.seconds
        loads = tuple(self._load(share, saturation, seed + at) for at, share in enumerate(SHARES))
        return Repetition(saturation, others, handling, loads)

    def _load(self, share: float, saturation: float, seed: int) -> Load:
        rate = share * saturation
        self._report(f"{share:g} of saturation: {rate:.0f} requests a second")
        count = max(1, round(rate * self._seconds))
        wait_until_quiet(self._patience)
        others = self._others()
        answers = at_moments(self._server.port, self._texts(count), poisson(rate, count, seed=seed))
        others = (self._others() - others - answers.client_seconds) / answers.seconds
        self._server.settle()
        p50, p99, unanswered = figures(answers.latencies)
        return Load(share, rate, count, seed, p50, p99, unanswered, max(0.0, others))

    def _texts(self, count: int) -> list[str]:
        numbers = range(self._next, self._next + count)
        self._next += count
        return [numbered(SENTENCES[number % len(SENTENCES)], number) for number in numbers]

    def _others(self) -> float:
        """The processor time of all programs but the service; the client's is in it."""
        return busy_seconds() - self._server.processes.processor_seconds()

    def _loop_seconds(self) -> float:
        """The processor time of the service's first thread, which runs the event loop."""
        first = self._server.processes.first
        text = (_PROC / f"{first}/task/{first}/stat").read_text(encoding="utf-8")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(latencies: Sequence[float]) -> tuple[float, float, float]:
    """Sums up a load, without the requests of its warm-up.

    Args:
        latencies: seconds of all requests in the order in which they were due; infinite for those
            without an answer.

    Returns:
        The median, the slowest 1 %, and the share without an answer.

    Raises:
        BenchmarkError: none has an answer.
    """
    counted = latencies[int(WARM_UP_SHARE * len(latencies)) :]
    answered = [each for each in counted if each < math.inf]
    if not answered:
        raise BenchmarkError("no request of a load was answered")
    share = 1 - len(answered) / len(counted)
    return percentile(answered, 50), percentile(answered, 99), share


def program(dtype: str) -> Program:
    """The service as the check starts it.

    Args:
        dtype: of its passes.
    """
    options = ("--dtype", dtype, "--request-timeout", str(DEADLINE))
    return Program("headlight", "service", options)


def repeat(
    checkpoint: Path,
    *,
    dtype: str,
    repetitions: int,
    seconds: float,
    patience: float,
    folder: Path,
    report: Report,
) -> list[Repetition]:
    """Starts the service for each repetition, and measures it.

    Args:
        checkpoint: the folder to serve.
        dtype: of its passes.
        repetitions: how often.
        seconds: of each load.
        patience: seconds to wait for a quiet machine before each load.
        folder: for its log.
        report: is called with each next step.

    Raises:
        BenchmarkError: the service did not start or ended, or an answer was wrong.
    """
    found = []
    for number in range(repetitions):
        report(f"repetition {number + 1} of {repetitions}")
        with serve(program(dtype), checkpoint, folder) as server:
            check = Check(server, seconds=seconds, patience=patience, report=report)
            found.append(check.measure(seed=100 * (number + 1)))
    return found
