"""Sends requests at a fixed rate and measures latency from when each was due."""

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
    """Returns the smallest value that at least `percent` of all do not exceed (nearest rank).

    Args:
        values: at least one, in any order.
        percent: above 0, at most 100.
    """
    rank = -int(-len(values) * percent // 100)
    return sorted(values)[rank - 1]


def run(
    rate: float,
    *,
    sentences: Sequence[str],
    port: int,
    first: int,
    warm_up: float,
    seconds: float,
) -> Figures:
    """Sends requests of one sentence each at a fixed rate.

    Args:
        rate: requests per second.
        sentences: to ask in turn.
        port: on 127.0.0.1.
        first: the number at the end of the first one.
        warm_up: seconds before measuring that do not count, without a pause after them.
        seconds: for which requests are due after that; all of them are answered before the end.

    Returns:
        Figures whose rate is that of the answers, counted from when the first measured request was
        due. It equals `rate` if the server keeps up, and is lower if not.

    Raises:
        AnswerError: an answer is wrong or missing.
    """
    skipped, count = round(rate * warm_up), max(1, round(rate * seconds))
    numbers = range(first, first + skipped + count)
    asked = [numbered(sentences[number % len(sentences)], number) for number in numbers]
    patience = warm_up + seconds + _PATIENCE
    try:
        answered = asyncio.run(asyncio.wait_for(_run(rate, asked, port), patience))
    except TimeoutError as error:
        raise AnswerError(f"{rate:.0f} requests a second: the server never caught up") from error
    latencies = [at - number / rate for number, at in enumerate(answered)][skipped:]
    # The last request has its share of the time too, so the rate never exceeds the asked one.
    lasted = max(count / rate, max(answered[skipped:]) - skipped / rate)
    return Figures(count / lasted, percentile(latencies, 50), percentile(latencies, 99), count)


async def _run(rate: float, asked: Sequence[str], port: int) -> list[float]:
    """Returns when each was answered, in seconds from when the first was due."""
    idle: deque[Connection] = deque()
    opened: list[Connection] = []
    answered = [0.0] * len(asked)

    async def ask(number: int) -> None:
        if idle:
            connection = idle.pop()
        elif len(opened) >= _MOST_CONNECTIONS:
            raise AnswerError(f"{_MOST_CONNECTIONS} requests wait: the server does not keep up")
        else:
            connection = await open_connection(port)
            opened.append(connection)
        await connection.predict([asked[number]])
        answered[number] = time.perf_counter() - begin
        idle.append(connection)

    begin = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(len(asked)):
                if (wait := begin + number / rate - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(ask(number))
    except* AnswerError as errors:
        raise errors.exceptions[0] from None
    finally:
        for connection in opened:
            await connection.close()
    return answered
