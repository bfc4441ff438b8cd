"""`GET /attention` and `POST /attention`: the raw weights of every head."""

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from service.answers import JSON, attention_answer, json_response
from service.dependencies import (
    AttentionBody,
    AttentionQuery,
    StateDep,
    offers,
    require_api_key,
    unless_gone,
)
from service.explain import explain
from service.openapi import ATTENTION_GET, ATTENTION_POST
from service.schemas import AttentionRequest
from service.state import State

router = APIRouter(dependencies=[Depends(require_api_key), Depends(offers(JSON))])


@router.get("/attention", **ATTENTION_GET)
async def attention_of_query(request: Request, query: AttentionQuery, state: StateDep) -> Response:
    """Shows which tokens each head attends to, for a sentence in the URL."""
    return await _answer(request, query, state, place="query")


@router.post("/attention", **ATTENTION_POST)
async def attention_of_body(request: Request, body: AttentionBody, state: StateDep) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _answer(request, body, state, place="body")


async def _answer(
    request: Request, wanted: AttentionRequest, state: State, *, place: str
) -> Response:
    limit = state.settings.max_attention_weights
    explaining = explain(state.engine, wanted, max_weights=limit, place=place)
    explanation = await unless_gone(request, explaining)
    return json_response(attention_answer(state.engine.info, explanation))
