"""Sends requests over connections and reads their answers."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import httpx

from headlight_client.answers import Answer
from headlight_client.exchange import LEAST_SECONDS, Send


class _Waits(Mapping[str, float]):
    """The limits of each wait of a request, in seconds, computed when they are looked up.

    httpcore looks up a limit when a part of the request begins: the connection, sending, the
    headers of the answer, its body. With fixed limits each part would get the whole time again.
    Only the remaining time limits a wait without a limit.
    """

    def __init__(self, limits: Mapping[str, float | None], left: Callable[[], float]) -> None:
        self._limits = limits
        self._left = left

    def __getitem__(self, name: str) -> float:
        limit = self._limits[name]
        left = max(self._left(), LEAST_SECONDS)
        return left if limit is None else min(limit, left)

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits)

    def __len__(self) -> int:
        return len(self._limits)


def send(http: httpx.Client, step: Send, now: Callable[[], float]) -> Answer | httpx.RequestError:
    """Sends a request and waits for its whole answer.

    No timer interrupts it. Each wait has its own limit, and the time is checked after the headers
    and after each piece of the body.
    """
    until = now() + step.seconds
    waits = _Waits(step.timeout.as_dict(), lambda: until - now())
    content = bytearray()
    try:
        with http.stream(
            step.method,
            step.url,
            headers=step.headers,
            content=step.body,
            extensions={"timeout": waits},
        ) as response:
            # The empty first piece checks the time after the headers, which may have come late.
            for piece in chain([b""], response.iter_bytes()):
                content += piece
                if now() > until:
                    return httpx.ReadTimeout("the answer came too slowly")
    except httpx.RequestError as error:
        return error
    return Answer(response.status_code, response.headers, bytes(content))


async def send_async(http: httpx.AsyncClient, step: Send) -> Answer | httpx.RequestError:
    """Sends a request and awaits its whole answer; ends when its time is up."""
    try:
        async with asyncio.timeout(step.seconds):
            response = await http.request(
                step.method,
                step.url,
                headers=step.headers,
                content=step.body,
                timeout=step.timeout,
            )
    except TimeoutError:
        return httpx.ReadTimeout("there was no answer in time")
    except httpx.RequestError as error:
        return error
    return Answer(response.status_code, response.headers, response.content)
