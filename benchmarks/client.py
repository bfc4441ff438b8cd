"""Asks `POST /predict`: once, or as an open-loop load.

The connections of the load do little, because the client takes time from the server beside it.
"""

import asyncio
import http.client
import json
import math
import time
from collections import deque
from collections.abc import Sequence

from benchmarks.errors import AnswerError
from benchmarks.loads import Figures
from benchmarks.texts import numbered

_HOST = "127.0.0.1"
_ANSWER_SECONDS = 30.0
_CATCH_UP_SECONDS = 60.0
_MOST_CONNECTIONS = 1000

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def predict_once(port: int, sentences: Sequence[str]) -> bytes:
    """Sends one request on a new connection; returns the body, or raises AnswerError after 30 s."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=_ANSWER_SECONDS)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/predict", json.dumps({"sentences": sentences}), headers)
        answer = connection.getresponse()
        content = answer.read()
    except TimeoutError as error:
        raise AnswerError(f"no answer within {_ANSWER_SECONDS:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise AnswerError(f"no answer from port {port}: {error}") from error
    finally:
        connection.close()
    _check_status(answer.status, content)
    if answer.getheader("Content-Length") is None:
        raise AnswerError("the answer has no Content-Length, which the clients need")
    return content


def open_loop(
    rate: float,
    *,
    sentences: Sequence[str],
    port: int,
    first: int,
    warm_up: float,
    seconds: float,
) -> Figures:
    """Sends requests of one sentence at a fixed rate; latency counts from when each was due.

    Args:
        rate: requests per second.
        sentences: the sentences that are sent in turn, each with a number.
        port: the server's port on 127.0.0.1.
        first: the number of the first sentence.
        warm_up: seconds before measuring, without a pause after them.
        seconds: the duration in which measured requests are due.

    Raises:
        AnswerError: an answer is wrong or missing, or more than 1,000 requests wait.
    """
    skipped, count = round(rate * warm_up), max(1, round(rate * seconds))
    numbers = range(first, first + skipped + count)
    texts = [numbered(sentences[number % len(sentences)], number) for number in numbers]
    patience = warm_up + seconds + _CATCH_UP_SECONDS
    try:
        answered = asyncio.run(asyncio.wait_for(_send(rate, texts, port), patience))
    except TimeoutError as error:
        raise AnswerError(f"{rate:.0f} requests a second: the server never caught up") from error
    latencies = sorted(
        at - number / rate for number, at in enumerate(answered) if number >= skipped
    )
    # The last request has its share of the time too, so the result never exceeds `rate`.
    duration = max(count / rate, max(answered[skipped:]) - skipped / rate)
    return Figures(count / duration, _percentile(latencies, 50), _percentile(latencies, 99), count)


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns the smallest value that `percent` of all do not exceed (nearest rank)."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


async def _send(rate: float, texts: Sequence[str], port: int) -> list[float]:
    """Returns when each text was answered, in seconds since the first was due."""
    idle: deque[_Streams] = deque()
    opened: list[_Streams] = []
    answered = [0.0] * len(texts)

    async def send(number: int) -> None:
        if not idle:
            if len(opened) >= _MOST_CONNECTIONS:
                raise AnswerError(f"{_MOST_CONNECTIONS} requests wait: the server does not keep up")
            opened.append(await asyncio.open_connection(_HOST, port))
            idle.append(opened[-1])
        streams = idle.pop()
        await _predict(streams, texts[number])
        answered[number] = time.perf_counter() - begin
        idle.append(streams)

    begin = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(len(texts)):
                if (wait := begin + number / rate - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(send(number))
    except ExceptionGroup as errors:
        raise AnswerError(f"an open-loop request failed: {errors.exceptions[0]}") from errors
    finally:
        for _, writer in opened:
            writer.close()
    return answered


async def _predict(streams: _Streams, text: str) -> None:
    reader, writer = streams
    body = json.dumps({"sentences": [text]}).encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: {_HOST}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode("ascii") + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, rest = answer.partition(b"\r\ncontent-length:")
    content = await reader.readexactly(int(rest.partition(b"\r\n")[0]))
    _check_status(int(answer.split(b" ", 2)[1]), content)


def _check_status(status: int, content: bytes) -> None:
    if status != 200:
        raise AnswerError(f"status {status}, not 200: {content[:200].decode('utf-8', 'replace')!r}")
