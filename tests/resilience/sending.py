"""Sends single sentences to a service, at a fixed rate or as fast as they are answered."""

import asyncio
import json
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

_HOST = "127.0.0.1"
_PATIENCE = 30.0
# More requests wait on the client's side, as they would at the limit of a load balancer.
_MOST_CONNECTIONS = 2000
_REFUSALS = {503: "/problems/overloaded", 504: "/problems/timeout"}

IsRight = Callable[[str, dict[str, Any]], bool]


@dataclass(slots=True)
class Outcome:
    """What became of the requests.

    Args:
        offered: requests that were sent.
        seconds: the time from the first request to the last answer.
        statuses: the statuses of the answers.
        wrong: what was neither a right answer nor a clean refusal, and how often.
        waits: seconds from when each rightly answered request was due.
    """

    offered: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    @property
    def served(self) -> float:
        """Right answers a second."""
        return self.statuses[200] / self.seconds

    def wait(self, percent: float) -> float:
        """The wait that this share of the right answers did not exceed (nearest rank)."""
        if not self.waits:
            return math.nan
        return sorted(self.waits)[-int(-len(self.waits) * percent // 100) - 1]

    def __str__(self) -> str:
        statuses = ", ".join(f"{count} of {code}" for code, count in sorted(self.statuses.items()))
        return (
            f"{self.offered} requests in {self.seconds:.1f} s, {statuses}, {self.served:.1f} right "
            f"answers/s, wait p50 {self.wait(50):.3f} s, p99 {self.wait(99):.3f} s, "
            f"wrong: {dict(self.wrong) or 'none'}"
        )


class _Connection:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def predict(self, sentence: str) -> tuple[int, bytes, bytes]:
        """Sends one sentence; returns status, head and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(_HOST, self._port)
        reader, writer = self._streams
        body = json.dumps({"sentences": [sentence]}).encode()
        writer.write(
            f"POST /predict HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode("ascii")
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, _, rest = head.partition(b"content-length:")
        content = await reader.readexactly(int(rest.partition(b"\r\n")[0]))
        return int(head.split(b" ", 2)[1]), head, content

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


_Note = Callable[[_Connection, str, float], Awaitable[bool]]


def send(
    port: int,
    sentences: Sequence[str],
    *,
    seconds: float,
    is_right: IsRight,
    clients: int = 1,
    rate: float | None = None,
    pause: float = 0.0,
) -> Outcome:
    """Sends requests of one sentence, and waits for all answers.

    Args:
        port: the port of the service on 127.0.0.1.
        sentences: are sent in turn.
        seconds: the duration.
        is_right: whether a prediction is right for its sentence.
        clients: send their next request when the last one is answered, without a `rate`.
        rate: requests a second, whether or not earlier ones are answered.
        pause: seconds of each client between answer and next request.
    """
    outcome = Outcome()
    note = partial(_note, outcome, is_right=is_right)
    if rate is None:
        sending = _by_clients(port, sentences, seconds, note, clients, pause)
    else:
        sending = _at_rate(port, sentences, seconds, note, rate)
    begin = time.perf_counter()
    asyncio.run(sending)
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def _at_rate(
    port: int, sentences: Sequence[str], seconds: float, note: _Note, rate: float
) -> None:
    idle: deque[_Connection] = deque()
    connections: list[_Connection] = []
    slots = asyncio.Semaphore(_MOST_CONNECTIONS)
    begin = time.perf_counter()

    async def ask(number: int, due: float) -> None:
        async with slots:
            if not idle:
                connections.append(_Connection(port))
            connection = idle.pop() if idle else connections[-1]
            if await note(connection, sentences[number % len(sentences)], due):
                idle.append(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            group.create_task(ask(number, due))
    for connection in connections:
        connection.close()


async def _by_clients(
    port: int, sentences: Sequence[str], seconds: float, note: _Note, clients: int, pause: float
) -> None:
    begin = time.perf_counter()

    async def client(number: int) -> None:
        connection = _Connection(port)
        while (due := time.perf_counter()) < begin + seconds:
            await note(connection, sentences[number % len(sentences)], due)
            number += clients
            await asyncio.sleep(pause)
        connection.close()

    await asyncio.gather(*map(client, range(clients)))


async def _note(
    outcome: Outcome, connection: _Connection, sentence: str, due: float, *, is_right: IsRight
) -> bool:
    """Asks, judges and counts; returns whether the connection can be used again."""
    outcome.offered += 1
    try:
        async with asyncio.timeout(_PATIENCE):
            status, head, content = await connection.predict(sentence)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        outcome.wrong[type(error).__name__] += 1
        return False
    outcome.statuses[status] += 1
    answer = json.loads(content)
    if status == 200 and is_right(sentence, answer["predictions"][0]):
        outcome.waits.append(time.perf_counter() - due)
    elif status not in _REFUSALS or answer["type"] != _REFUSALS[status]:
        outcome.wrong[f"{status}: {content[:100]!r}"] += 1
    elif status == 503 and b"\r\nretry-after:" not in head:
        outcome.wrong["503 without Retry-After"] += 1
    return True
