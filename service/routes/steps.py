"""Answers `/attention/steps` with how one head makes its weights, step by step.

The steps of a head need the layers below it. They go through the queue as gradients do, so they
wait for their turn and are dropped when the client leaves or the deadline passes.
"""

from functools import partial
from typing import Annotated, Any

from fastapi import Body
from starlette.responses import Response

from service.errors import TooManyWeightsError, invalid
from service.formats.json import JSON, steps_body
from service.formats.size_estimates import estimate_steps
from service.queue.request import Job
from service.routes.attention import encode_one
from service.routes.openapi import computes
from service.routes.request_schemas import EXAMPLE, StepsRequest
from service.routes.requests import Context, answers, from_body, make_router
from service.routes.schemas import StepsAnswer

router = make_router(tags=["attention"])

_EXAMPLES: dict[str, Any] = {
    "steps": {
        "summary": "The weights that the second token gives, in one head",
        "value": {"sentence": EXAMPLE, "layer": 0, "head": 0, "query": 1},
    }
}


@router.post(
    "/attention/steps",
    summary="How a head makes its weights",
    **computes("body", StepsAnswer, TooManyWeightsError),
)
@answers(from_body(StepsRequest))
async def steps_of_body(
    context: Context, request: Annotated[StepsRequest, Body(openapi_examples=_EXAMPLES)]
) -> Response:
    """Shows how one head makes the weights of one token, from its queries and keys on."""
    engine = context.state.engine
    inspector = engine.predictor.inspector
    encoding = await encode_one(context, request)
    length = len(encoding.input_ids)
    if request.query >= length:
        raise invalid((context.source, "query"), f"the text has tokens 0 to {length - 1}")
    numbers = inspector.count_numbers(length)
    if numbers > (limit := context.state.settings.max_attention_weights):
        raise TooManyWeightsError(
            f"The steps of a head over {length} tokens are {numbers} numbers; the limit is "
            f"{limit}: shorten the text."
        )
    size = estimate_steps(numbers, [token.text for token in encoding.tokens or ()])
    reserved = context.reserve(size, "shorten the text")

    def work() -> bytes:
        steps = inspector.steps(
            encoding, layer=request.layer, head=request.head, query=request.query
        )
        return steps_body(engine.info, steps)

    job = Job(partial(engine.predictor.attempt, work), [encoding])
    (body,) = await engine.queue.run([job], deadline=context.deadline, caller=context.client)
    if reserved is not None:
        reserved.shrink(len(body))
    return Response(body, media_type=JSON)
