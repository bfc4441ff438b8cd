"""Sends single sentences to a service, at a fixed rate or as fast as they are answered."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_PATIENCE = aiohttp.ClientTimeout(30.0)
# More requests wait on the client's side, as they would at the limit of a load balancer.
_MOST_CONNECTIONS = 2000
_REFUSALS = {503: "/problems/overloaded", 504: "/problems/timeout"}

IsRight = Callable[[str, dict[str, Any]], bool]


@dataclass(slots=True)
class Outcome:
    """What became of the requests.

    Args:
        offered: the number of requests.
        seconds: the time from the first request to the last answer.
        statuses: how many answers had each status.
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

    async def ask(
        self, session: aiohttp.ClientSession, sentence: str, due: float, is_right: IsRight
    ) -> None:
        """Sends one sentence, judges the answer and counts it."""
        self.offered += 1
        try:
            async with session.post("/predict", json={"sentences": [sentence]}) as response:
                status, headers, content = response.status, response.headers, await response.read()
        except (aiohttp.ClientError, OSError) as error:
            self.wrong[type(error).__name__] += 1
            return
        self.statuses[status] += 1
        answer = json.loads(content)
        if status == 200 and is_right(sentence, answer["predictions"][0]):
            self.waits.append(time.perf_counter() - due)
        elif status not in _REFUSALS or answer["type"] != _REFUSALS[status]:
            self.wrong[f"{status}: {content[:100]!r}"] += 1
        elif status == 503 and "Retry-After" not in headers:
            self.wrong["503 without Retry-After"] += 1


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
        sentences: the texts, sent in turn.
        seconds: the duration.
        is_right: whether a prediction is right for its sentence.
        clients: without a `rate`, this many send the next request when the last one is answered.
        rate: requests a second, whether or not earlier ones are answered.
        pause: seconds of each client between answer and next request.
    """
    outcome = Outcome()

    async def run() -> None:
        connector = aiohttp.TCPConnector(limit=_MOST_CONNECTIONS)
        session = aiohttp.ClientSession(
            f"http://127.0.0.1:{port}", connector=connector, timeout=_PATIENCE
        )
        begin = time.perf_counter()

        async def ask(number: int, due: float) -> None:
            await outcome.ask(session, sentences[number % len(sentences)], due, is_right)

        async def client(number: int) -> None:
            while (due := time.perf_counter()) < begin + seconds:
                await ask(number, due)
                number += clients
                await asyncio.sleep(pause)

        async with session, asyncio.TaskGroup() as group:
            if rate is None:
                for number in range(clients):
                    group.create_task(client(number))
                return
            for number in range(round(rate * seconds)):
                due = begin + number / rate
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                group.create_task(ask(number, due))

    begin = time.perf_counter()
    asyncio.run(run())
    outcome.seconds = time.perf_counter() - begin
    return outcome
