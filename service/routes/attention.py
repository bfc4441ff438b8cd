"""Answers `/attention` with weights, and `/attention/steps` with how one head makes them.

Weights come in the view and the form asked for. The steps of a head need the layers below it, so
they go through the queue as gradients do.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

from fastapi import Body, Query
from starlette.responses import Response

from model import AttentionOptions, Encoding, Explanation
from model.explain.pictures import MOST_CELLS, draw, svg_picture
from model.explain.views import downsampled_side, make_view, reduced_shape
from model.reading import ReadingOptions
from model.tokenization.words import group_words
from model.types import Downsampling, Token, Words
from service.errors import TooManyWeightsError, invalid
from service.formats.json import JSON, attention_body, join_list, steps_body
from service.formats.npz import npz_archive, npz_arrays
from service.formats.size_estimates import Size, estimate_size, estimate_steps
from service.queue.preparing import Steps
from service.queue.scheduler import Job
from service.routes.bodies import read_query
from service.routes.openapi import computes
from service.routes.request_schemas import (
    EXAMPLE,
    AttentionListRequest,
    AttentionQuery,
    AttentionRequest,
    AttributionsRequest,
    FormName,
    ImportanceRequest,
    StepsRequest,
)
from service.routes.requests import Context, RequestContext, answers, from_body, make_router
from service.routes.schemas import AttentionAnswer, StepsAnswer
from service.routes.texts import Texts, encode, heads_off, only, shape

router = make_router(tags=["attention"])

NPZ = "application/x-npz"
SVG = "image/svg+xml"
# What `format` calls each media type; the first is the answer where any is welcome.
FORMS: dict[str, FormName] = {JSON: "json", NPZ: "npz", SVG: "svg"}

_MEDIA_TYPES = {name: media_type for media_type, name in FORMS.items()}
_OTHER_FORMS = {
    "content": {
        NPZ: {"schema": {"type": "string", "format": "binary"}},
        SVG: {"schema": {"type": "string"}},
    }
}
_EXAMPLES: dict[str, Any] = {
    "one_head": {
        "summary": "One head of the first layer",
        "value": {"sentence": EXAMPLE, "layer": [0], "head": [0]},
    },
    "words": {
        "summary": "All layers joined, between words, of two sentences",
        "value": {
            "sentences": [EXAMPLE, "The plot drags, and the cast is dull."],
            "reduce": "rollout",
            "level": "word",
        },
    },
}
_STEPS_EXAMPLES: dict[str, Any] = {
    "steps": {
        "summary": "The weights that the second token gives, in one head",
        "value": {"sentence": EXAMPLE, "layer": 0, "head": 0, "query": 1},
    }
}

Attention = AttentionQuery | AttentionListRequest


async def _read_query(context: RequestContext) -> AttentionQuery:
    query: bytes = context.scope["query_string"]
    return await context.parse(
        query, lambda: read_query(query, AttentionQuery, context.state.limits)
    )


Explaining = Attention | AttributionsRequest | ImportanceRequest | StepsRequest


@router.get(
    "/attention",
    summary="Attention of a sentence in the URL",
    **computes("query", AttentionAnswer, TooManyWeightsError, good=_OTHER_FORMS),
)
@answers(_read_query, *FORMS)
async def attention_of_query(
    context: Context, query: Annotated[AttentionQuery, Query()]
) -> Response:
    """Shows which tokens each head attends to, for a sentence in the URL."""
    return await _explain(context, query)


@router.post(
    "/attention",
    summary="Attention of one sentence or several",
    **computes(
        "body", AttentionAnswer | list[AttentionAnswer], TooManyWeightsError, good=_OTHER_FORMS
    ),
)
@answers(from_body(AttentionRequest, sentences=AttentionListRequest), *FORMS)
async def attention_of_body(
    context: Context,
    body: Annotated[AttentionRequest | AttentionListRequest, Body(openapi_examples=_EXAMPLES)],
) -> Response:
    """The same for a text that is too long or too private for a URL, or for several."""
    return await _explain(context, body)


@router.post(
    "/attention/steps",
    summary="How a head makes its weights",
    **computes("body", StepsAnswer, TooManyWeightsError),
)
@answers(from_body(StepsRequest))
async def steps_of_body(
    context: Context, request: Annotated[StepsRequest, Body(openapi_examples=_STEPS_EXAMPLES)]
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


async def _explain(context: RequestContext, request: Attention) -> Response:
    engine = context.state.engine
    form = request.format or FORMS[context.form]
    if request.thumbnail is not None and form == "svg":
        message = "`thumbnail` works with `json` and `npz`, not with `svg`"
        raise invalid((context.source, "thumbnail"), message)
    work = _read_and_measure(context, request, form)
    encodings, words, size = await context.prepare(work, _texts(request))
    reserved = context.reserve(size, "ask for fewer layers or heads, or for a shorter text")

    answered, texts = shape(context, request.labels), _texts(request)
    source = f"{engine.info.name} {engine.info.version}"

    def write(number: int, explanation: Explanation) -> object:
        """Writes the view of one sentence; runs on the worker that computed it."""
        prediction = answered(explanation.prediction, texts[number])
        explanation = replace(explanation, prediction=prediction)
        view = make_view(explanation, reduce=request.reduce, words=words[number])
        if form == "npz":
            return npz_arrays(engine.info, view, dtype=request.dtype)
        return draw(view, source) if form == "svg" else attention_body(engine.info, view)

    options = [
        AttentionOptions(encoding, request.layer, request.head, _thumbnail(request, grouped))
        for encoding, grouped in zip(encodings, words, strict=True)
    ]
    parts = await engine.queue.explain(
        options, write, numbers=size.weights, deadline=context.deadline, caller=context.client
    )
    body: bytes | memoryview
    if form == "json" and isinstance(request, AttentionQuery):
        body = cast("memoryview", parts[0])
    else:
        join = partial(_join, request, form, parts)
        body = await context.state.preparer.call(context.client.client, join)
    if reserved is not None:
        reserved.shrink(len(body))
    return Response(body, media_type=_MEDIA_TYPES[form])


def _read_and_measure(
    context: RequestContext, request: Attention, form: FormName
) -> Steps[tuple[list[Encoding], list[Words | None], Size]]:
    """Encodes the texts, and refuses an answer with too many weights."""
    encodings = yield from _encode(context, request)
    words: list[Words | None] = []
    for text, encoding in zip(_texts(request), encodings, strict=True):
        words.append(group_words(text, encoding.tokens or ()) if request.level == "word" else None)
        yield
    tokens = [
        encoding.tokens or () if grouped is None else grouped.tokens
        for encoding, grouped in zip(encodings, words, strict=True)
    ]
    return encodings, words, _measure(context, request, form, tokens)


def _thumbnail(request: Attention, words: Words | None) -> Downsampling | None:
    if request.thumbnail is None:
        return None
    return Downsampling(request.thumbnail, request.special, request.reduce, words)


def _join(request: Attention, form: FormName, parts: Sequence[Any]) -> bytes:
    """Joins the parts of all sentences."""
    if form == "npz":
        return npz_archive(parts, numbered=isinstance(request, AttentionListRequest))
    return svg_picture(parts) if form == "svg" else join_list(parts)


def _measure(
    context: RequestContext, request: Attention, form: FormName, tokens: Sequence[Sequence[Token]]
) -> Size:
    """Measures an answer over tokens or words; raises TooManyWeightsError."""
    info = context.state.engine.info
    layers, heads = reduced_shape(
        request.reduce,
        len(set(request.layer)) if request.layer else info.num_layers,
        len(set(request.head)) if request.head else info.num_heads,
    )
    sides = None
    over = f"{len(tokens)} sentences" if len(tokens) > 1 else f"{len(tokens[0])} {request.level}s"
    shorter = "for a shorter text"
    if request.thumbnail is not None:
        sides = [
            downsampled_side(names, request.thumbnail, special=request.special) for names in tokens
        ]
        over += f" in thumbnails of {max(sides)}"
        shorter = "for smaller thumbnails"
    size = estimate_size(
        form,
        [[token.text for token in names] for names in tokens],
        maps=layers * heads,
        float_bytes=2 if request.dtype == "float16" else 4,
        listed=isinstance(request, AttentionListRequest),
        sides=sides,
    )
    limit = most_weights(form, context.state.settings.max_attention_weights)
    if size.weights > limit:
        of_form = "" if form == "json" else f" of {form}"
        raise TooManyWeightsError(
            f"{_count(layers, 'layer')} of {_count(heads, 'head')} over {over} are {size.weights} "
            f"weights; the limit{of_form} is {limit}: ask for fewer layers or heads, or {shorter}."
        )
    return size


def most_weights(form: FormName, max_weights: int) -> int:
    """Returns the most weights of one answer of a form, by the setting `max_weights`."""
    return min(max_weights, MOST_CELLS) if form == "svg" else max_weights


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


async def encode_one(
    context: RequestContext, request: AttributionsRequest | ImportanceRequest | StepsRequest
) -> Encoding:
    """Encodes the sentence of a request with its tokens; raises as `encode`."""
    (encoding,) = await context.prepare(_encode(context, request), [request.sentence])
    return encoding


def _texts(request: Explaining) -> list[str]:
    return request.sentences if isinstance(request, AttentionListRequest) else [request.sentence]


def _encode(context: RequestContext, request: Explaining) -> Steps[list[Encoding]]:
    options = ReadingOptions(
        request.truncation,
        max_windows=context.state.settings.max_windows,
        heads=heads_off(request),
        omit=getattr(request, "omit", None) or (),
    )
    if isinstance(request, AttentionListRequest):
        texts = Texts(request.sentences, options)
    else:
        texts = Texts([request.sentence], options, ("sentence",), only)
    return encode(context, texts, window=getattr(request, "window", 0))
