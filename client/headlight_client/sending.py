"""From a `Send` to its answer or to why there is none: all that touches a connection."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import httpx

from headlight_client.answers import Answer
from headlight_client.exchange import LEAST_SECONDS, Send


class _Waits(Mapping[str, float]):
    """Limits of the waits of one request, in seconds, each as of when it is looked up.

    httpcore looks a limit up when a part of the request begins: the connection, sending, the
    headers of the answer, its body. Fixed limits would give each of them the whole time anew.

    Args:
        limits: of each kind of wait; None for one that only the time limits.
        left: what is left of the time.
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
    """Sends a request and reads its whole answer, waiting.

    No clock runs beside it, so each wait has a limit of its own, and the time is looked at after
    the headers and after each piece of the body.

    Args:
        http: to send through.
        step: what to send.
        now: a clock in seconds that never goes back.
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
            # The first piece stands for the headers, which may have come late or in drops.
            for piece in chain([b""], response.iter_bytes()):
                content += piece
                if now() > until:
                    return httpx.ReadTimeout("the answer came too slowly")
    except httpx.RequestError as error:
        return error
    return Answer(response.status_code, response.headers, bytes(content))


async def send_async(http: httpx.AsyncClient, step: Send) -> Answer | httpx.RequestError:
    """The same, awaiting, and ended when its time is up, whatever it waits for.

    Args:
        http: to send through.
        step: what to send.
    """
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
