"""`GET /attention` and `POST /attention`: the raw weights of every head."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attention import explain
from service.api.forms import FORMS, make_form
from service.api.openapi import ATTENTION_GET, ATTENTION_POST
from service.api.requests import (
    admit,
    read_attention_body,
    read_attention_query,
    state_of,
    unless_gone,
)
from service.api.schemas import AttentionListRequest, AttentionRequest
from service.http.middleware import deadline_of

router = APIRouter()


@router.get("/attention", **ATTENTION_GET)
async def attention_of_query(request: Request) -> Response:
    """Shows which tokens each head attends to, for a sentence in the URL."""
    chosen = admit(request, *FORMS)
    return await _answer(request, read_attention_query(request), chosen, place="query")


@router.post("/attention", **ATTENTION_POST)
async def attention_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL, or for several."""
    chosen = admit(request, *FORMS)
    return await _answer(request, await read_attention_body(request), chosen, place="body")


async def _answer(
    request: Request,
    wanted: AttentionRequest | AttentionListRequest,
    chosen: str,
    *,
    place: str,
) -> Response:
    state = state_of(request)
    form = make_form(
        wanted.format or FORMS[chosen],
        state.engine.info,
        dtype=wanted.dtype,
        several=isinstance(wanted, AttentionListRequest),
        max_weights=state.settings.max_attention_weights,
    )
    explaining = explain(
        state.engine, wanted, form, place=place, deadline=deadline_of(request.scope)
    )
    body = await unless_gone(request, explaining)
    return Response(body, media_type=form.media_type)
