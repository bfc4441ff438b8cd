"""Requests at a fixed rate: latency from the moment that each was due, its wait included."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from benchmarks.client import Connection, open_connection
from benchmarks.errors import AnswerError
from benchmarks.texts import numbered
from benchmarks.wrk import Figures

_PATIENCE = 60.0
_MOST_CONNECTIONS = 1000


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank).

    Args:
        values: at least one, in any order.
        percent: above 0, at most 100.
    """
    rank = -int(-len(values) * percent // 100)
    return sorted(values)[rank - 1]


def run(rate: float, *, sentences: Sequence[str], port: int, first: int, seconds: float) -> Figures:
    """Sends requests of one sentence each at a fixed rate.

    Args:
        rate: requests a second.
        sentences: that are asked in turns.
        port: on 127.0.0.1.
        first: the number at the end of the first one.
        seconds: how long; all that is due then is answered before the end.

    Raises:
        AnswerError: an answer is not right, or does not come.
    """
    count = max(1, round(rate * seconds))
    asked = [numbered(sentences[n % len(sentences)], n) for n in range(first, first + count)]
    try:
        latencies = asyncio.run(asyncio.wait_for(_run(rate, asked, port), seconds + _PATIENCE))
    except TimeoutError as error:
        raise AnswerError(f"{rate:.0f} requests a second: the server never caught up") from error
    return Figures(len(latencies) / seconds, percentile(latencies, 50), percentile(latencies, 99))


async def _run(rate: float, asked: Sequence[str], port: int) -> list[float]:
    idle: deque[Connection] = deque()
    opened: list[Connection] = []
    latencies: list[float] = []

    async def ask(sentence: str, due: float) -> None:
        if idle:
            connection = idle.pop()
        elif len(opened) >= _MOST_CONNECTIONS:
            raise AnswerError(f"{_MOST_CONNECTIONS} requests wait: the server does not keep up")
        else:
            connection = await open_connection(port)
            opened.append(connection)
        await connection.predict([sentence])
        latencies.append(time.perf_counter() - due)
        idle.append(connection)

    try:
        async with asyncio.TaskGroup() as group:
            begin = time.perf_counter()
            for number, sentence in enumerate(asked):
                due = begin + number / rate
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(ask(sentence, due))
    except* AnswerError as errors:
        raise errors.exceptions[0] from None
    finally:
        for connection in opened:
            await connection.close()
    return latencies
