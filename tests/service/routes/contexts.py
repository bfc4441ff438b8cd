"""Requests that were let in, without a service."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from starlette.requests import Request
from starlette.types import Message

from service.queue.preparing import Preparer
from service.queue.scheduler import ClientId
from service.routes.requests import RequestContext


def request_of(pieces: Iterable[bytes], **headers: str) -> Request:
    """A request with a body in pieces, and headers whose names have `_` for `-`."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces] + [
        {"type": "http.request", "body": b"", "more_body": False}
    ]

    async def receive() -> Message:
        return messages.pop(0)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw}, receive)


def context_of(request: Request, max_body_bytes: int) -> RequestContext:
    """The context of a request whose body has a limit."""
    settings = SimpleNamespace(max_body_bytes=max_body_bytes, max_sentences=3)
    state = SimpleNamespace(settings=settings, preparer=Preparer(), preparer_of_large=Preparer())
    return RequestContext(request, cast("Any", state), ClientId())
