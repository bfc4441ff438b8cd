"""`GET /importance` and `POST /importance`: how much an answer depends on each head."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attributions import rank_heads
from service.api.openapi import IMPORTANCE_GET, IMPORTANCE_POST
from service.api.requests import (
    admit,
    read_explained_body,
    read_explained_query,
    state_of,
    unless_gone,
)
from service.api.schemas import ImportanceRequest
from service.formats.answers import json_response
from service.http.middleware import deadline_of

router = APIRouter()


@router.get("/importance", **IMPORTANCE_GET)
async def importance_of_query(request: Request) -> Response:
    """Tells how much the log-odds of a label depend on each head, for this sentence."""
    admit(request)
    return await _answer(request, read_explained_query(request, ImportanceRequest), place="query")


@router.post("/importance", **IMPORTANCE_POST)
async def importance_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL."""
    admit(request)
    wanted = await read_explained_body(request, ImportanceRequest)
    return await _answer(request, wanted, place="body")


async def _answer(request: Request, wanted: ImportanceRequest, *, place: str) -> Response:
    deadline = deadline_of(request.scope)
    ranking = rank_heads(state_of(request).engine, wanted, place=place, deadline=deadline)
    return json_response(await unless_gone(request, ranking))
