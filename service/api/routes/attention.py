"""Answers `/attention` with the weights of every head."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attention import FORMS, Attention, explain
from service.api.openapi import ATTENTION_GET, ATTENTION_POST
from service.api.requests import admit, caller_of, place_of, read_input, unless_gone
from service.api.schemas import AttentionListRequest, AttentionQuery, AttentionRequest
from service.api.state import state_of

router = APIRouter()


@router.get("/attention", **ATTENTION_GET)
async def attention_of_query(request: Request) -> Response:
    """Shows which tokens each head attends to, for a sentence in the URL."""
    return await _answer(request)


@router.post("/attention", **ATTENTION_POST)
async def attention_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL, or for several."""
    return await _answer(request)


async def _answer(request: Request) -> Response:
    accepted = admit(request, *FORMS)
    wanted: Attention = await read_input(
        request, AttentionRequest, several=AttentionListRequest, of_query=AttentionQuery
    )
    scope, caller = request.scope, caller_of(request)
    explaining = explain(state_of(request), wanted, accepted, place_of(request), scope, caller)
    return await unless_gone(request, explaining)
