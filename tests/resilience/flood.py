"""More requests than a service can answer, at a fixed rate whether it answers or not."""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_HOST = "127.0.0.1"
_PATIENCE = 30.0
# More wait on the client's side, as they would at the limit of a load balancer.
_MOST_CONNECTIONS = 2000
REFUSALS = {503: "/problems/overloaded", 504: "/problems/timeout"}


@dataclass(slots=True)
class Outcome:
    """What became of the requests of one flood.

    Args:
        offered: requests that were sent.
        seconds: from the first to the end of the last answer.
        statuses: of the answers.
        wrong: what was neither a right answer nor a clean refusal, and how often.
        waits: seconds from the moment that each request of a right answer was due.
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
        """The wait that so many of the right answers did not exceed (nearest rank)."""
        return sorted(self.waits)[-int(-len(self.waits) * percent // 100) - 1]


class _Connection:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sentence: str) -> tuple[int, bytes, bytes]:
        """Sends one sentence; the status, head and body of the answer."""
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


def flood(
    port: int,
    sentences: Sequence[str],
    *,
    rate: float,
    seconds: float,
    is_right: Callable[[str, dict[str, Any]], bool],
) -> Outcome:
    """Sends requests of one sentence at a fixed rate.

    Args:
        port: on 127.0.0.1.
        sentences: that are asked in turns.
        rate: requests a second.
        seconds: how long; all that was sent is waited for.
        is_right: whether a prediction is what its sentence deserves.
    """
    return asyncio.run(_flood(port, sentences, rate, seconds, is_right))


def saturate(
    port: int,
    sentences: Sequence[str],
    *,
    clients: int,
    seconds: float,
    is_right: Callable[[str, dict[str, Any]], bool],
) -> Outcome:
    """Lets so many clients ask as fast as they are answered; arguments as of `flood`."""
    return asyncio.run(_saturate(port, sentences, clients, seconds, is_right))


async def _flood(
    port: int,
    sentences: Sequence[str],
    rate: float,
    seconds: float,
    is_right: Callable[[str, dict[str, Any]], bool],
) -> Outcome:
    outcome = Outcome()
    idle: deque[_Connection] = deque()
    connections: list[_Connection] = []
    places = asyncio.Semaphore(_MOST_CONNECTIONS)
    begin = time.perf_counter()

    async def ask(number: int, due: float) -> None:
        sentence = sentences[number % len(sentences)]
        async with places:
            if not idle:
                connections.append(_Connection(port))
            connection = idle.pop() if idle else connections[-1]
            if await _note(outcome, connection, sentence, due, is_right):
                idle.append(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            due = begin + number / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            outcome.offered += 1
            group.create_task(ask(number, due))
    outcome.seconds = time.perf_counter() - begin
    for connection in connections:
        connection.close()
    return outcome


async def _saturate(
    port: int,
    sentences: Sequence[str],
    clients: int,
    seconds: float,
    is_right: Callable[[str, dict[str, Any]], bool],
) -> Outcome:
    outcome = Outcome()
    begin = time.perf_counter()

    async def client(first: int) -> None:
        connection = _Connection(port)
        number = first
        while (due := time.perf_counter()) < begin + seconds:
            outcome.offered += 1
            await _note(outcome, connection, sentences[number % len(sentences)], due, is_right)
            number += clients
        connection.close()

    await asyncio.gather(*(client(first) for first in range(clients)))
    outcome.seconds = time.perf_counter() - begin
    return outcome


async def _note(
    outcome: Outcome,
    connection: _Connection,
    sentence: str,
    due: float,
    is_right: Callable[[str, dict[str, Any]], bool],
) -> bool:
    """Asks, judges and counts; whether the connection can be used again."""
    try:
        async with asyncio.timeout(_PATIENCE):
            status, head, content = await connection.ask(sentence)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        outcome.wrong[type(error).__name__] += 1
        return False
    outcome.statuses[status] += 1
    answer = json.loads(content)
    if status == 200 and is_right(sentence, answer["predictions"][0]):
        outcome.waits.append(time.perf_counter() - due)
    elif status not in REFUSALS or answer["type"] != REFUSALS[status]:
        outcome.wrong[f"{status}: {content[:100]!r}"] += 1
    elif status == 503 and b"\r\nretry-after:" not in head:
        outcome.wrong["503 without Retry-After"] += 1
    return True
