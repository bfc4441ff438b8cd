"""What routes ask of a request: may it come in, what form of answer it takes, what it wants."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

from starlette.requests import ClientDisconnect, Request

from service.api.body import Body, read_body, read_json, validate
from service.api.query import read_query
from service.api.schemas import AttentionListRequest, AttentionRequest, PredictRequest
from service.api.state import State
from service.errors import NOT_FOUND_DETAIL, NotFoundError, UnauthorizedError
from service.formats.answers import JSON
from service.http.negotiation import negotiate
from service.settings import Access

Answer = TypeVar("Answer")


def state_of(request: Request) -> State:
    """The parts of the service that the request came to."""
    return cast("State", request.app.state.headlight)


def require_api_key(request: Request) -> None:
    """Lets in only who has a key, if keys are set.

    Raises:
        UnauthorizedError: keys are set and the request has none that is right.
    """
    given = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not state_of(request).api_keys.admits(given[0] if len(given) == 1 else None):
        raise UnauthorizedError(
            "This service needs an API key: send it as Authorization: Bearer KEY.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def require_access(request: Request, *parts: Access) -> None:
    """Lets in as the settings say of what a route belongs to; the most open of them counts.

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
    """Chooses among the forms of an answer, the preferred one first.

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
        The form that the request takes.

    Raises:
        UnauthorizedError: keys are set and the request has none that is right.
        NotAcceptableError: it takes none of the forms.
    """
    require_api_key(request)
    return choose_form(request, *(media_types or (JSON,)))


async def read_predict(request: Request) -> PredictRequest:
    """The body of `POST /predict`; raises as `read_body`."""
    settings = state_of(request).settings
    return await read_body(
        request,
        PredictRequest,
        max_bytes=settings.max_body_bytes,
        context={"max_sentences": settings.max_sentences},
    )


async def read_attention_body(request: Request) -> AttentionRequest | AttentionListRequest:
    """The body of `POST /attention`, of one sentence or several; raises as `read_body`."""
    state = state_of(request)
    limits = _limits(state)

    def check(value: object) -> AttentionRequest | AttentionListRequest:
        if isinstance(value, dict) and "sentences" in value:
            return validate(AttentionListRequest, value, place="body", context=limits)
        return validate(AttentionRequest, value, place="body", context=limits)

    return await read_json(request, check, max_bytes=state.settings.max_body_bytes)


def read_attention_query(request: Request) -> AttentionRequest:
    """The query of `GET /attention`; raises as `read_query`."""
    return read_query(
        request.scope["query_string"],
        AttentionRequest,
        repeatable=frozenset({"layer", "head"}),
        context=_limits(state_of(request)),
    )


async def read_explained_body(request: Request, schema: type[Body]) -> Body:
    """The body of a request to explain a label; raises as `read_body`."""
    state = state_of(request)
    max_bytes = state.settings.max_body_bytes
    return await read_body(request, schema, max_bytes=max_bytes, context=_labels(state))


def read_explained_query(request: Request, schema: type[Body]) -> Body:
    """The query of a request to explain a label; raises as `read_query`."""
    return read_query(
        request.scope["query_string"],
        schema,
        integers=frozenset({"steps"}),
        context=_labels(state_of(request)),
    )


def _labels(state: State) -> dict[str, tuple[str, ...]]:
    return {"labels": state.checkpoint.config.labels}


def _limits(state: State) -> dict[str, int]:
    config = state.checkpoint.config
    return {
        "layers": config.num_layers,
        "heads": config.num_heads,
        "max_sentences": state.settings.max_sentences,
    }


async def unless_gone(request: Request, work: Awaitable[Answer]) -> Answer:
    """Waits for work, and drops it when the client goes away first.

    Args:
        request: its body read to the end.
        work: cancelled if the connection closes.

    Raises:
        ClientDisconnect: the client is gone.
    """
    computing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait({computing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not computing.done():
            raise ClientDisconnect
        return await computing
    finally:
        leaving.cancel()
        computing.cancel()


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
