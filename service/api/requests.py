"""Asks of a request: may it come in, which form of answer does it accept, what does it want."""

import asyncio
from collections.abc import Awaitable, Hashable
from functools import partial
from typing import Literal, TypeVar

from starlette.requests import ClientDisconnect, Request

from service.api.input import Schema, read_body, read_query, validate
from service.api.state import state_of
from service.errors import (
    NOT_FOUND_DETAIL,
    CrossSiteError,
    NotFoundError,
    UnauthorizedError,
)
from service.formats.json import JSON
from service.http.access import authorization, challenge, client_of, explain_refusal
from service.http.middleware import seconds_of
from service.http.negotiation import negotiate
from service.http.response_budget import sender_of
from service.inference.admission import ClientId
from service.settings import Access

Answer = TypeVar("Answer")

# Values of `Sec-Fetch-Site` (W3C Fetch Metadata) of a page that is not the service's own.
_ELSEWHERE = frozenset({"cross-site", "same-site"})


def require_api_key(request: Request) -> None:
    """Lets in a request with a right key, or any if no keys are set.

    Raises:
        UnauthorizedError: keys are set and the request has none that is right.
    """
    headers = request.scope["headers"]
    if not state_of(request).api_keys.admits(authorization(headers)):
        raise UnauthorizedError(
            explain_refusal(headers), headers={"WWW-Authenticate": challenge(headers)}
        )


def require_access(request: Request, *parts: Access) -> None:
    """Lets in a request as the settings of its route say; the most open of them counts.

    Raises:
        NotFoundError: all are switched off.
        UnauthorizedError: a key is needed and the request has none that is right.
    """
    if "open" in parts:
        return
    if "key" not in parts:
        raise NotFoundError(NOT_FOUND_DETAIL)
    require_api_key(request)


def choose_form(request: Request, *media_types: str) -> str:
    """Chooses the form of an answer by the header `Accept`.

    Args:
        request: its headers are read.
        media_types: the forms that there are, the preferred one first.

    Raises:
        NotAcceptableError: `Accept` names none of them.
    """
    return negotiate(request.headers.getlist("accept"), media_types)


def admit(request: Request, *media_types: str) -> str:
    """Lets in a request by its head alone, before its body or query is read.

    Args:
        request: only its head is read yet.
        media_types: forms of its answer, the preferred one first; JSON if none is given.

    Returns:
        The form that the request accepts.

    Raises:
        CrossSiteError: a page from elsewhere made a browser send it.
        UnauthorizedError: keys are set and the request has none that is right.
        RateLimitedError: its client has sent too many.
        NotAcceptableError: it accepts none of the forms.
    """
    if request.method == "GET":
        require_same_site(request)
    require_api_key(request)
    if (limit := state_of(request).requests) is not None:
        limit.spend(_payer(request))
    return choose_form(request, *(media_types or (JSON,)))


def require_same_site(request: Request) -> None:
    """Refuses what a foreign page makes a browser ask without asking the service first.

    That is what markup such as an image does, and a body that names no type. Browsers say in
    `Sec-Fetch-Site` where a request comes from. No page can change this header. A page that may
    read the answers (CORS) also names its origin.

    Raises:
        CrossSiteError: a page from elsewhere made a browser send it.
    """
    if request.headers.get("sec-fetch-site") not in _ELSEWHERE:
        return
    allowed = state_of(request).settings.allowed_origins or ()
    if "origin" in request.headers and {"*", request.headers["origin"]} & set(allowed):
        return
    other = "send it with POST, or " if request.method == "GET" else ""
    raise CrossSiteError(
        "A page from elsewhere made the browser ask this, and it takes much work: "
        f"{other}name the page's origin in HEADLIGHT_ALLOWED_ORIGINS."
    )


def caller_of(request: Request) -> ClientId:
    """Who sends a request, for whoever shares the network among clients."""
    state, scope = state_of(request), request.scope
    client = client_of(state.api_keys, scope["client"], scope["headers"])
    route, seconds = scope["route"].path, seconds_of(scope)
    if state.tokens is None:
        return ClientId(client, route, seconds=seconds)
    return ClientId(client, route, partial(state.tokens.spend, _payer(request)), seconds)


def _payer(request: Request) -> Hashable:
    scope = request.scope
    keys = state_of(request).api_keys
    return client_of(keys, scope["client"], scope["headers"], by_address=True)


def place_of(request: Request) -> Literal["body", "query"]:
    """The part of a request that says what it wants."""
    return "query" if request.method == "GET" else "body"


async def read_input(
    request: Request,
    schema: type[Schema],
    several: type[Schema] | None = None,
    *,
    of_query: type[Schema] | None = None,
) -> Schema:
    """Reads what a request wants; raises as `read_query` and `read_body`.

    Args:
        request: its body is not read yet.
        schema: what its query or its body must be.
        several: what a body with the field `sentences` must be instead.
        of_query: what a query must be, if that is something else.
    """
    state = state_of(request)
    limits = state.limits
    if place_of(request) == "query":
        return read_query(request.scope["query_string"], of_query or schema, limits)

    def check(value: object) -> Schema:
        is_list = isinstance(value, dict) and "sentences" in value
        chosen = several if is_list and several is not None else schema
        return validate(chosen, value, place="body", context=limits, several=several is not None)

    return await read_body(request, check, max_bytes=state.settings.max_body_bytes)


async def unless_gone(request: Request, work: Awaitable[Answer]) -> Answer:
    """Waits for work, and cancels it if the client disconnects first.

    Args:
        request: its body is read to the end.
        work: cancelled if the connection closes.

    Raises:
        ClientDisconnect: the client is gone.
    """
    sender = sender_of(request.scope)
    task = asyncio.current_task()
    if sender is None or task is None:
        return await work
    # Tasks for the work and for the end of the connection would cost more than a small request.
    cancelled_before = task.cancelling()
    is_gone = False

    def leave() -> None:
        nonlocal is_gone
        is_gone = True
        task.cancel()

    sender.tell_when_lost(leave)
    try:
        return await work
    except asyncio.CancelledError:
        # Whoever else cancels the task, such as a deadline, must find it cancelled.
        if is_gone and task.uncancel() <= cancelled_before:
            raise ClientDisconnect from None
        raise
    finally:
        sender.tell_when_lost(None)
