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
from service.http.access import authorization, client_of
from service.http.negotiation import negotiate
from service.inference.admission import Caller
from service.settings import Access

Answer = TypeVar("Answer")

# Values of `Sec-Fetch-Site` (W3C Fetch Metadata) of a page that is not the service's own.
_ELSEWHERE = frozenset({"cross-site", "same-site"})


def require_api_key(request: Request) -> None:
    """Lets in a request with a right key, or any if no keys are set.

    Raises:
        UnauthorizedError: keys are set and the request has none that is right.
    """
    if not state_of(request).api_keys.admits(authorization(request.scope["headers"])):
        raise UnauthorizedError(
            "This service needs an API key: send it as Authorization: Bearer KEY.",
            headers={"WWW-Authenticate": "Bearer"},
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
    _refuse_cross_site(request)
    require_api_key(request)
    if (limit := state_of(request).requests) is not None:
        limit.spend(_payer(request))
    return choose_form(request, *(media_types or (JSON,)))


def _refuse_cross_site(request: Request) -> None:
    """Refuses what the markup of a foreign page, such as an image, makes a browser ask.

    Browsers say in `Sec-Fetch-Site` where a request comes from. No page can change this header. A
    page that may read the answers (CORS) also names its origin.
    """
    if request.method != "GET" or request.headers.get("sec-fetch-site") not in _ELSEWHERE:
        return
    allowed = state_of(request).settings.allowed_origins or ()
    if "origin" in request.headers and {"*", request.headers["origin"]} & set(allowed):
        return
    raise CrossSiteError(
        "A page from elsewhere made the browser ask this, and it takes much work: send it with "
        "POST, or name the page's origin in HEADLIGHT_ALLOWED_ORIGINS."
    )


def caller_of(request: Request) -> Caller:
    """Who sends a request, for whoever shares the network among clients."""
    state, scope = state_of(request), request.scope
    client = client_of(state.api_keys, scope["client"], scope["headers"])
    route = scope["route"].path
    if state.tokens is None:
        return Caller(client, route)
    return Caller(client, route, partial(state.tokens.spend, _payer(request)))


def _payer(request: Request) -> Hashable:
    scope = request.scope
    keys = state_of(request).api_keys
    return client_of(keys, scope["client"], scope["headers"], by_address=True)


def place_of(request: Request) -> Literal["body", "query"]:
    """The part of a request that says what it wants."""
    return "query" if request.method == "GET" else "body"


async def read_input(
    request: Request, schema: type[Schema], several: type[Schema] | None = None
) -> Schema:
    """Reads what a request wants; raises as `read_query` and `read_body`.

    Args:
        request: its body is not read yet.
        schema: what its query or its body must be.
        several: what a body with the field `sentences` must be instead.
    """
    state = state_of(request)
    limits = state.limits
    if place_of(request) == "query":
        return read_query(request.scope["query_string"], schema, limits)

    def check(value: object) -> Schema:
        is_list = isinstance(value, dict) and "sentences" in value
        chosen = several if is_list and several is not None else schema
        return validate(chosen, value, place="body", context=limits)

    return await read_body(request, check, max_bytes=state.settings.max_body_bytes)


async def unless_gone(request: Request, work: Awaitable[Answer]) -> Answer:
    """Waits for work, and cancels it if the client disconnects first.

    Args:
        request: its body is read to the end.
        work: cancelled if the connection closes.

    Raises:
        ClientDisconnect: the client is gone.
    """
    computing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({computing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not computing.done():
            raise ClientDisconnect
        return await computing
    finally:
        leaving.cancel()
        computing.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
