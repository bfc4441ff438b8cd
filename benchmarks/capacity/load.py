"""Asks a real service: at random moments whether or not it keeps up, or as fast as it answers."""

import asyncio
import json
import math
import resource
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.errors import AnswerError

_HOST = "127.0.0.1"
_PATIENCE = 60.0
_MOST_CONNECTIONS = 4_000
_ANSWERED, _REFUSED, _LATE = 200, 503, 504


@dataclass(frozen=True, slots=True)
class Answers:
    """What came back.

    Args:
        latencies: seconds from when each request was due until its whole answer was read; infinite
            for those that were refused or late.
        refused: answers with the status 503.
        late: answers with the status 504.
        seconds: from when the first was due until the last answer.
        client_seconds: of processor time that the client took.
    """

    latencies: Sequence[float]
    refused: int
    late: int
    seconds: float
    client_seconds: float


class _Client:
    def __init__(self, port: int, texts: Sequence[str]) -> None:
        self._port = port
        self._requests = [_request(port, text) for text in texts]
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._opened: list[asyncio.StreamWriter] = []
        self.statuses = [0] * len(texts)
        self.latencies = [math.inf] * len(texts)

    async def ask(self, number: int, due: float) -> None:
        """Sends a request, and notes its status and how long after `due` it was answered."""
        reader, writer = self._idle.pop() if self._idle else await self._open()
        try:
            writer.write(self._requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_length(head))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise AnswerError("the service closed a connection early") from error
        status = int(head.split(b" ", 2)[1])
        if status not in (_ANSWERED, _REFUSED, _LATE):
            raise AnswerError(f"status {status}, not 200, 503 or 504")
        self.statuses[number] = status
        if status == _ANSWERED:
            self.latencies[number] = time.perf_counter() - due
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self._idle.append((reader, writer))

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if len(self._opened) >= _MOST_CONNECTIONS:
            raise AnswerError(f"{_MOST_CONNECTIONS:,} requests wait: the service does not keep up")
        try:
            reader, writer = await asyncio.open_connection(_HOST, self._port)
        except OSError as error:
            raise AnswerError(f"no connection to port {self._port}: {error}") from error
        self._opened.append(writer)
        return reader, writer

    async def close(self) -> None:
        """Closes all connections."""
        for writer in self._opened:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


Sender = Callable[[_Client, float], Awaitable[None]]


def at_moments(port: int, texts: Sequence[str], moments: Sequence[float]) -> Answers:
    """Sends each text when it is due, whether or not earlier ones are answered.

    A wait of the client counts as a wait for the service: latency begins when a request is due.

    Args:
        port: on 127.0.0.1.
        texts: of the requests, one each.
        moments: when each is due, in seconds, ascending.

    Raises:
        AnswerError: a connection broke, an answer had another status, or 4,000 requests wait.
    """

    async def send(client: _Client, begin: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number, moment in enumerate(moments):
                if (wait := begin + moment - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(client.ask(number, begin + moment))

    return _run(port, texts, send)


def as_answered(port: int, texts: Sequence[str], connections: int) -> Answers:
    """Sends the next text on each connection as soon as the one before is answered.

    Args:
        port: on 127.0.0.1.
        texts: of the requests, one each.
        connections: at once.

    Raises:
        AnswerError: a connection broke, or an answer had another status.
    """

    async def send(client: _Client, _: float) -> None:
        numbers = iter(range(len(texts)))

        async def keep_asking() -> None:
            for number in numbers:
                await client.ask(number, time.perf_counter())

        async with asyncio.TaskGroup() as group:
            for _place in range(connections):
                group.create_task(keep_asking())

    return _run(port, texts, send)


def _run(port: int, texts: Sequence[str], send: Sender) -> Answers:
    async def run() -> Answers:
        client = _Client(port, texts)
        taken, begin = _own_seconds(), time.perf_counter()
        try:
            async with asyncio.timeout(_PATIENCE + 0.1 * len(texts)):
                await send(client, begin)
        except* AnswerError as errors:
            raise _first(errors) from None
        finally:
            seconds, taken = time.perf_counter() - begin, _own_seconds() - taken
            await client.close()
        return Answers(
            client.latencies,
            client.statuses.count(_REFUSED),
            client.statuses.count(_LATE),
            seconds,
            taken,
        )

    try:
        return asyncio.run(run())
    except TimeoutError as error:
        raise AnswerError("the service never caught up") from error


def _first(errors: BaseExceptionGroup[AnswerError]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _request(port: int, text: str) -> bytes:
    body = json.dumps({"sentences": [text]}).encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: {_HOST}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise AnswerError("an answer has no Content-Length")
