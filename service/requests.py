"""What routes ask of a request: may it come in, what form of answer it takes, what it wants."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

from starlette.requests import ClientDisconnect, Request

from service.body import read_body
from service.errors import UnauthorizedError
from service.negotiation import negotiate
from service.query import read_query
from service.schemas import AttentionRequest, PredictRequest
from service.state import State

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


def choose_form(request: Request, *media_types: str) -> str:
    """Chooses among the forms of an answer, the preferred one first.

    Raises:
        NotAcceptableError: `Accept` names none of them.
    """
    return negotiate(request.headers.getlist("accept"), media_types)


async def read_predict(request: Request) -> PredictRequest:
    """The body of `POST /predict`; raises as `read_body`."""
    settings = state_of(request).settings
    return await read_body(
        request,
        PredictRequest,
        max_bytes=settings.max_body_bytes,
        context={"max_sentences": settings.max_sentences},
    )


async def read_attention_body(request: Request) -> AttentionRequest:
    """The body of `POST /attention`; raises as `read_body`."""
    state = state_of(request)
    return await read_body(
        request,
        AttentionRequest,
        max_bytes=state.settings.max_body_bytes,
        context=_counts(state),
    )


def read_attention_query(request: Request) -> AttentionRequest:
    """The query of `GET /attention`; raises as `read_query`."""
    return read_query(
        request.scope["query_string"],
        AttentionRequest,
        repeatable=frozenset({"layer", "head"}),
        context=_counts(state_of(request)),
    )


def _counts(state: State) -> dict[str, int]:
    config = state.checkpoint.config
    return {"layers": config.num_layers, "heads": config.num_heads}


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
