"""What routes ask for: each a dependency that FastAPI resolves before the route runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from service.body import read_body
from service.errors import UnauthorizedError
from service.negotiation import negotiate
from service.query import read_query
from service.schemas import AttentionRequest, PredictRequest
from service.state import State

Answer = TypeVar("Answer")


def _state(request: Request) -> State:
    return cast("State", request.app.state.headlight)


StateDep = Annotated[State, Depends(_state)]


async def require_api_key(request: Request, state: StateDep) -> None:
    """Lets in only who has a key, if keys are set.

    Raises:
        UnauthorizedError: keys are set and the request has none that is right.
    """
    given = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not state.api_keys.admits(given[0] if len(given) == 1 else None):
        raise UnauthorizedError(
            "This service needs an API key: send it as Authorization: Bearer KEY.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def offers(*media_types: str) -> Callable[[Request], Awaitable[str]]:
    """A dependency that chooses among the forms of an answer, the preferred one first.

    Raises:
        NotAcceptableError: when it runs and `Accept` names none of them.
    """

    async def choose(request: Request) -> str:
        return negotiate(request.headers.getlist("accept"), media_types)

    return choose


async def _predict_body(request: Request, state: StateDep) -> PredictRequest:
    settings = state.settings
    return await read_body(
        request,
        PredictRequest,
        max_bytes=settings.max_body_bytes,
        context={"max_sentences": settings.max_sentences},
    )


async def _attention_body(request: Request, state: StateDep) -> AttentionRequest:
    return await read_body(
        request,
        AttentionRequest,
        max_bytes=state.settings.max_body_bytes,
        context=_counts(state),
    )


async def _attention_query(request: Request, state: StateDep) -> AttentionRequest:
    return read_query(
        request.scope["query_string"],
        AttentionRequest,
        repeatable=frozenset({"layer", "head"}),
        context=_counts(state),
    )


def _counts(state: State) -> dict[str, int]:
    config = state.checkpoint.config
    return {"layers": config.num_layers, "heads": config.num_heads}


PredictBody = Annotated[PredictRequest, Depends(_predict_body)]
AttentionBody = Annotated[AttentionRequest, Depends(_attention_body)]
AttentionQuery = Annotated[AttentionRequest, Depends(_attention_query)]


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
