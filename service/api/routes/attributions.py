"""`GET /attributions` and `POST /attributions`: what each token adds to the log-odds of a label."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attributions import attribute
from service.api.openapi import ATTRIBUTIONS_GET, ATTRIBUTIONS_POST
from service.api.requests import (
    admit,
    read_explained_body,
    read_explained_query,
    state_of,
    unless_gone,
)
from service.api.schemas import AttributionsRequest
from service.formats.answers import json_response
from service.http.middleware import deadline_of

router = APIRouter()


@router.get("/attributions", **ATTRIBUTIONS_GET)
async def attributions_of_query(request: Request) -> Response:
    """Tells what each token, or each word, adds to the log-odds of a label."""
    admit(request)
    return await _answer(request, read_explained_query(request, AttributionsRequest), place="query")


@router.post("/attributions", **ATTRIBUTIONS_POST)
async def attributions_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL."""
    admit(request)
    wanted = await read_explained_body(request, AttributionsRequest)
    return await _answer(request, wanted, place="body")


async def _answer(request: Request, wanted: AttributionsRequest, *, place: str) -> Response:
    state = state_of(request)
    attributing = attribute(
        state.engine,
        wanted,
        max_batch_tokens=state.engine.max_batch_tokens,
        max_queue_tokens=state.settings.max_queue_tokens,
        place=place,
        deadline=deadline_of(request.scope),
    )
    return json_response(await unless_gone(request, attributing))
