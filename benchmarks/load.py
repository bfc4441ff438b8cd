"""From a load and a port to a rate and latencies: what a client process does and measures."""

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.client import connect
from benchmarks.errors import AnswerError
from benchmarks.sentences import numbered

# Beyond the time asked for; a server that has not answered by then never will.
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """How a server is asked.

    Args:
        connections: each sends its next request when the last one is answered.
        sentences: in one request.
    """

    connections: int
    sentences: int

    def __str__(self) -> str:
        """As the table shows it."""
        return f"{_count(self.sentences, 'sentence')} at {_count(self.connections, 'connection')}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one load on one server.

    Args:
        sentences_per_second: answered.
        p50: of the latencies of requests, in seconds.
        p99: of the same.
    """

    sentences_per_second: float
    p50: float
    p99: float


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank).

    Args:
        values: at least one, in any order.
        percent: above 0, at most 100.
    """
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[rank - 1]


def measure(load: Load, *, port: int, first: int, warm_up: float, seconds: float) -> Measurement:
    """Keeps a server busy and measures it meanwhile.

    Requests that are answered within the window count; all connections are busy before it begins
    and until it is over, so that neither start nor end distorts the rate.

    Args:
        load: what to send.
        port: on 127.0.0.1.
        first: the number of the first sentence; see `numbered`.
        warm_up: seconds of the same load before the window.
        seconds: length of the window.

    Raises:
        AnswerError: an answer is not right, or none came within the window.
    """
    return asyncio.run(_measure(load, port=port, first=first, warm_up=warm_up, seconds=seconds))


async def _measure(
    load: Load, *, port: int, first: int, warm_up: float, seconds: float
) -> Measurement:
    sentences = numbered(first)
    begin = time.perf_counter() + warm_up
    end = begin + seconds
    try:
        async with asyncio.timeout(warm_up + seconds + _PATIENCE):
            lists = await asyncio.gather(
                *(
                    _ask(load.sentences, port=port, sentences=sentences, begin=begin, end=end)
                    for _ in range(load.connections)
                )
            )
    except TimeoutError as error:
        raise AnswerError(f"{load}: no answer for {_PATIENCE:g} s, so given up") from error
    latencies = [latency for found in lists for latency in found]
    if not latencies:
        raise AnswerError(f"{load}: no answer within {seconds:g} s; raise --seconds")
    return Measurement(
        sentences_per_second=len(latencies) * load.sentences / seconds,
        p50=percentile(latencies, 50),
        p99=percentile(latencies, 99),
    )


async def _ask(
    count: int, *, port: int, sentences: Iterator[str], begin: float, end: float
) -> list[float]:
    """Asks over one connection until the window is over; the latencies inside of it."""
    latencies = []
    async with connect(port) as connection:
        while (sent := time.perf_counter()) < end:
            await connection.predict([next(sentences) for _ in range(count)])
            answered = time.perf_counter()
            if begin <= answered <= end:
                latencies.append(answered - sent)
    return latencies


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
