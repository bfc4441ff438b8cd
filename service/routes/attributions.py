"""Answers `/attributions` and `/importance`: what a prediction depends on, by tokens or heads.

Gradients are cut into jobs about as large as a batch, so that other requests run between them, and
the remaining jobs are dropped when the client leaves or the deadline passes. Leaving out takes
predictions like any others, in portions that admission lets in.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Body
from starlette.responses import Response

from model import (
    Attribution,
    Attributor,
    Encoding,
    HeadImportance,
    LeaveOut,
    LeaveOutAttribution,
    Prediction,
    TextUnits,
)
from model.explain.attribution import STEPS
from model.explain.units import Unit
from model.reading import ReadingOptions, read_units_in_steps
from service.errors import (
    DrainingError,
    InternalError,
    NotInstalledError,
    NotReadyError,
    RateLimitedError,
    ServiceError,
)
from service.formats.json import attributions_answer, importance_answer
from service.metrics import FUSED
from service.queue.preparing import Steps, one_step
from service.queue.scheduler import Job
from service.routes.attention import encode_one
from service.routes.openapi import computes
from service.routes.request_schemas import EXAMPLE, AttributionsRequest, ImportanceRequest
from service.routes.requests import (
    Context,
    RequestContext,
    answers,
    from_body,
    json_response,
    make_router,
)
from service.routes.schemas import AttributionsAnswer, ImportanceAnswer, LeaveOutAnswer
from service.routes.texts import choice_of, reading, shape, tokenizing

Explained = TypeVar("Explained", Attribution, LeaveOutAttribution, HeadImportance)
Maybe = TypeVar("Maybe", Prediction, Prediction | None)

router = make_router()

# The text may take the first share of the time; leaving out ends after the second.
_SHARE_OF_WHOLE, _SHARE_OF_TIME = 0.75, 0.9

_OF_WORDS: dict[str, Any] = {
    "attributions": {"summary": "Of words", "value": {"sentence": EXAMPLE, "level": "word"}},
    "pair": {
        "summary": "Of a choice between two labels",
        "value": {"sentence": EXAMPLE, "labels": ["negative", "positive"]},
    },
    "left_out": {
        "summary": "What changes without each word",
        "value": {"sentence": EXAMPLE, "method": "leave_out", "level": "word"},
    },
}
_OF_HEADS: dict[str, Any] = {
    "importance": {"summary": "Of every head", "value": {"sentence": EXAMPLE}}
}


@router.post(
    "/attributions",
    summary="What moved the prediction of a sentence",
    tags=["attributions"],
    # The one with more fields first: generated clients take the first that fits.
    **computes("body", LeaveOutAnswer | AttributionsAnswer, NotInstalledError),
)
@answers(from_body(AttributionsRequest))
async def attributions_of_body(
    context: Context, request: Annotated[AttributionsRequest, Body(openapi_examples=_OF_WORDS)]
) -> Response:
    """Returns what each token, word or sentence adds to the log-odds of a label."""
    if request.method == "leave_out":
        return await _leave_out(context, request)
    engine = context.state.engine
    encoding = await encode_one(context, request)
    steps = request.steps or STEPS
    if request.method == "integrated_gradients":
        engine.limits.check_steps(steps, len(encoding.input_ids), context.client.seconds)
    attributor = Attributor(
        await engine.gradients(),
        encoding,
        label=request.label,
        choice=choice_of(context, request.labels),
        method=request.method,
        steps=steps,
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
    shares = await engine.queue.run(jobs, deadline=context.deadline, caller=context.client)
    attribution = attributor.finish(shares)
    if request.level == "word":
        attribution = attribution.by_word()
    warned = _warned(context, request, attribution)
    return json_response(attributions_answer(engine.info, warned, level=request.level))


@router.post(
    "/importance",
    summary="Importance of the heads for a sentence",
    tags=["importance"],
    **computes("body", ImportanceAnswer, NotInstalledError),
)
@answers(from_body(ImportanceRequest))
async def importance_of_body(
    context: Context, request: Annotated[ImportanceRequest, Body(openapi_examples=_OF_HEADS)]
) -> Response:
    """Returns how much the log-odds of a label depend on each head, for this sentence."""
    engine = context.state.engine
    encoding = await encode_one(context, request)
    work = partial(
        (await engine.gradients()).head_importance,
        encoding,
        label=request.label,
        choice=choice_of(context, request.labels),
    )
    job = Job(partial(engine.predictor.attempt, work), [encoding])
    (importance,) = await engine.queue.run([job], deadline=context.deadline, caller=context.client)
    return json_response(importance_answer(engine.info, _warned(context, request, importance)))


async def _leave_out(context: RequestContext, request: AttributionsRequest) -> Response:
    engine, now = context.state.engine, asyncio.get_running_loop().time()
    until = now + _SHARE_OF_TIME * (context.deadline - now)
    text = await context.prepare(_read_units(context, request), [request.sentence])
    count, seconds = sum(len(each.input_ids) for each in text.whole), context.client.seconds
    what = "Three quarters of the time are for the text, which takes"
    engine.limits.check(FUSED, count, _SHARE_OF_WHOLE * seconds, what=what)
    whole = await engine.queue.predict(text.whole, deadline=until, caller=context.client)
    work = LeaveOut(
        text,
        _sound(whole),
        temperature=engine.info.temperature,
        label=request.label,
        choice=choice_of(context, request.labels),
    )
    await _compute_units(context, request, work, until)

    def write() -> Steps[Response]:
        found = yield from work.finish_in_steps()
        warned = _warned(context, request, found)
        return json_response(attributions_answer(engine.info, warned, level=request.level))

    return await context.prepare(write(), [request.sentence])


def _read_units(context: RequestContext, request: AttributionsRequest) -> Steps[TextUnits]:
    predictor = context.state.engine.predictor
    options = ReadingOptions(request.truncation, max_windows=context.state.settings.max_windows)
    with tokenizing(1), reading(("body", "sentence")):
        return (yield from read_units_in_steps(predictor, request.sentence, options, request.level))


async def _compute_units(
    context: RequestContext, request: AttributionsRequest, work: LeaveOut, until: float
) -> None:
    """Computes units until all are done, the time is over, or no more are admitted.

    Raises:
        ServiceError: not even the first unit was admitted, or the service fails.
    """
    most, clock = sys.maxsize, asyncio.get_running_loop().time
    while (left := until - clock()) > 0:
        most = min(most, context.state.engine.limits.most_tokens(FUSED, left))
        choose = one_step(partial(_choose, work, most))
        units, encodings = await context.prepare(choose, [request.sentence])
        if not units:
            return
        try:
            predictions = await context.state.engine.queue.predict_until(
                encodings, until, caller=context.client
            )
        except (InternalError, NotReadyError, DrainingError):
            raise
        except ServiceError as refusal:
            if len(units) > 1 and not isinstance(refusal, RateLimitedError):
                most = sum(map(work.text.count_tokens, units)) // 2
            elif work.has_found:
                return
            else:
                raise
        else:
            work.add(units, _sound(predictions))


def _choose(work: LeaveOut, most_tokens: int) -> tuple[list[Unit], list[Encoding]]:
    units = work.take(most_tokens)
    return units, work.text.without(units)


def _sound(predictions: Sequence[Maybe | InternalError]) -> list[Maybe]:
    """Raises the first error among predictions."""
    for each in predictions:
        if isinstance(each, InternalError):
            raise each
    return [each for each in predictions if not isinstance(each, InternalError)]


def _warned(
    context: RequestContext, request: AttributionsRequest | ImportanceRequest, found: Explained
) -> Explained:
    """Adds warnings about the text, if there are any."""
    prediction = shape(context, None)(found.prediction, request.sentence)
    return replace(found, prediction=prediction)
