"""Answers `/attention/steps` with how one head makes its weights, step by step."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.openapi import STEPS_GET, STEPS_POST
from service.api.requests import admit, caller_of, place_of, read_input, unless_gone
from service.api.schemas import StepsQuery, StepsRequest
from service.api.state import state_of
from service.api.steps import follow

router = APIRouter()


@router.get("/attention/steps", **STEPS_GET)
async def steps_of_query(request: Request) -> Response:
    """Shows how one head makes the weights of one token, from its queries and keys on."""
    return await _answer(request)


@router.post("/attention/steps", **STEPS_POST)
async def steps_of_body(request: Request) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _answer(request)


async def _answer(request: Request) -> Response:
    admit(request)
    wanted: StepsQuery = await read_input(request, StepsRequest, of_query=StepsQuery)
    scope, caller = request.scope, caller_of(request)
    following = follow(state_of(request), wanted, place_of(request), scope, caller)
    return await unless_gone(request, following)
