"""A real service for the clients, and one way to ask both of them."""

# ruff: noqa: ANN401

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headlight_client import AsyncClient, Client
from headlight_client.exchange import Awaiting, Blocking
from tests.end_to_end.servers import TLS, shared

# Of a method's name, its arguments and those of the client: what the method gives.
Ask = Callable[..., Any]


def ask_client(url: str, asked: str, *given: Any, options: Any = None, **named: Any) -> Any:
    with httpx.Client(verify=TLS) as http, Client(url, http_client=http, **options or {}) as client:
        return getattr(client, asked)(*given, **named)


def ask_async_client(url: str, asked: str, *given: Any, options: Any = None, **named: Any) -> Any:
    async def ask() -> Any:
        async with httpx.AsyncClient(verify=TLS) as http:
            client = AsyncClient(url, http_client=http, **options or {})
            return await getattr(client, asked)(*given, **named)

    return asyncio.run(ask())


@pytest.fixture(params=[ask_client, ask_async_client], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks with the one client and with the other."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that clients would have made, in seconds; none is made."""
    made: list[float] = []

    async def note(_: object, seconds: float) -> None:
        made.append(seconds)

    for transport in (Blocking, Awaiting):
        monkeypatch.setattr(transport, "sleep", note)
    return made


running = shared(
    *("--max-sentences", "5", "--max-attention-weights", "2000"),
    scope="session",
    HEADLIGHT_API_KEYS="the-key",
)
