"""Answers `/attributions` and `/importance`: what a prediction depends on, by tokens or heads."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attributions import attribute, rank_heads
from service.api.openapi import (
    ATTRIBUTIONS_GET,
    ATTRIBUTIONS_POST,
    IMPORTANCE_GET,
    IMPORTANCE_POST,
)
from service.api.requests import admit, caller_of, place_of, read_input, unless_gone
from service.api.schemas import AttributionsRequest, ImportanceRequest
from service.api.state import State, state_of
from service.formats.json import json_response
from service.http.middleware import deadline_of
from service.inference.admission import ClientId

Wanted = TypeVar("Wanted", AttributionsRequest, ImportanceRequest)

router = APIRouter()


@router.get("/attributions", **ATTRIBUTIONS_GET)
async def attributions_of_query(request: Request) -> Response:
    """Tells what each token, or each word, adds to the log-odds of a label."""
    return await _answer(request, AttributionsRequest, attribute)


@router.post("/attributions", **ATTRIBUTIONS_POST)
async def attributions_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _answer(request, AttributionsRequest, attribute)


@router.get("/importance", **IMPORTANCE_GET)
async def importance_of_query(request: Request) -> Response:
    """Tells how much the log-odds of a label depend on each head, for this sentence."""
    return await _answer(request, ImportanceRequest, rank_heads)


@router.post("/importance", **IMPORTANCE_POST)
async def importance_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _answer(request, ImportanceRequest, rank_heads)


async def _answer(
    request: Request,
    schema: type[Wanted],
    explain: Callable[[State, Wanted, str, float, ClientId], Awaitable[dict[str, object]]],
) -> Response:
    admit(request)
    wanted = await read_input(request, schema)
    deadline, caller = deadline_of(request.scope), caller_of(request)
    explaining = explain(state_of(request), wanted, place_of(request), deadline, caller)
    return json_response(await unless_gone(request, explaining))
