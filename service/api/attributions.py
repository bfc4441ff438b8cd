"""Answers `/attributions` and `/importance`: what a prediction depends on, by tokens or heads.

The work is cut into jobs about as large as a batch, so that other requests run between them, and
the remaining jobs are dropped when the client leaves or the deadline passes.
"""

from functools import partial
from typing import Annotated, Any

from fastapi import Body, Query
from starlette.responses import Response

from model import Attributor
from service.api.attention import encode
from service.api.openapi import computes
from service.api.request_schemas import EXAMPLE, AttributionsRequest, ImportanceRequest
from service.api.requests import (
    Context,
    RequestContext,
    answers,
    from_body,
    from_query,
    make_router,
)
from service.api.schemas import AttributionsAnswer, ImportanceAnswer
from service.formats.json import attributions_answer, importance_answer, json_response
from service.inference.work_items import Job

router = make_router()

_OF_WORDS: dict[str, Any] = {
    "attributions": {"summary": "Of words", "value": {"sentence": EXAMPLE, "level": "word"}}
}
_OF_HEADS: dict[str, Any] = {
    "importance": {"summary": "Of every head", "value": {"sentence": EXAMPLE}}
}


@router.get(
    "/attributions",
    summary="What moved the prediction of a sentence in the URL",
    tags=["attributions"],
    **computes("query", AttributionsAnswer),
)
@answers(from_query(AttributionsRequest))
async def attributions_of_query(
    context: Context, query: Annotated[AttributionsRequest, Query()]
) -> Response:
    """Returns what each token, or each word, adds to the log-odds of a label."""
    return await _attribute(context, query)


@router.post(
    "/attributions",
    summary="What moved the prediction of a sentence",
    tags=["attributions"],
    **computes("body", AttributionsAnswer),
)
@answers(from_body(AttributionsRequest))
async def attributions_of_body(
    context: Context, body: Annotated[AttributionsRequest, Body(openapi_examples=_OF_WORDS)]
) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _attribute(context, body)


@router.get(
    "/importance",
    summary="Importance of the heads for a sentence in the URL",
    tags=["importance"],
    **computes("query", ImportanceAnswer),
)
@answers(from_query(ImportanceRequest))
async def importance_of_query(
    context: Context, query: Annotated[ImportanceRequest, Query()]
) -> Response:
    """Returns how much the log-odds of a label depend on each head, for this sentence."""
    return await _rank_heads(context, query)


@router.post(
    "/importance",
    summary="Importance of the heads for a sentence",
    tags=["importance"],
    **computes("body", ImportanceAnswer),
)
@answers(from_body(ImportanceRequest))
async def importance_of_body(
    context: Context, body: Annotated[ImportanceRequest, Body(openapi_examples=_OF_HEADS)]
) -> Response:
    """The same for a text that is too long or too private for a URL."""
    return await _rank_heads(context, body)


async def _attribute(context: RequestContext, request: AttributionsRequest) -> Response:
    engine = context.state.engine
    (encoding,) = await encode(context, request)
    if request.method == "integrated_gradients":
        engine.limits.check_steps(request.steps, len(encoding.input_ids), context.client.seconds)
    attributor = Attributor(
        engine.predictor.gradients,
        encoding,
        label=request.label,
        method=request.method,
        steps=request.steps,
    )
    attempt = engine.predictor.attempt
    jobs = [
        Job(
            partial(attempt, partial(attributor.integrate, piece)),
            # The first piece also computes the ends of the path: the text and its baseline.
            [encoding] * (len(piece) + 2 * (not piece.start)),
        )
        for piece in attributor.pieces(engine.max_batch_tokens)
    ]
    shares = await engine.batcher.run(jobs, deadline=context.deadline, caller=context.client)
    attribution = attributor.finish(shares)
    if request.level == "word":
        attribution = attribution.by_word()
    return json_response(attributions_answer(engine.info, attribution, level=request.level))


async def _rank_heads(context: RequestContext, request: ImportanceRequest) -> Response:
    engine = context.state.engine
    (encoding,) = await encode(context, request)
    work = partial(engine.predictor.gradients.head_importance, encoding, label=request.label)
    job = Job(partial(engine.predictor.attempt, work), [encoding])
    (importance,) = await engine.batcher.run(
        [job], deadline=context.deadline, caller=context.client
    )
    return json_response(importance_answer(engine.info, importance))
