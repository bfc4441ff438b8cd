"""Requests that were let in, without a service."""

from types import SimpleNamespace
from typing import Any, cast

from starlette.requests import Request

from service.queue.preparing import Preparer
from service.queue.scheduler import ClientId
from service.routes.requests import RequestContext


def context_of(request: Request, max_body_bytes: int) -> RequestContext:
    """The context of a request whose body has a limit."""
    settings = SimpleNamespace(max_body_bytes=max_body_bytes, max_sentences=3)
    state = SimpleNamespace(settings=settings, preparer=Preparer(), preparer_of_large=Preparer())
    return RequestContext(request, cast("Any", state), ClientId())
