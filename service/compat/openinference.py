"""Answers clients of the Open Inference Protocol, such as those of Triton and KServe: `/v2/…`.

Texts are classified as `POST /predict` does. With `attention` or `tokens` among the outputs, one
text is answered as `/attention` does: its prediction and its weights come from one pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import fastapi
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from model import AttentionOptions, Explanation, Prediction
from model.reading import ReadingOptions
from service.compat.base import CUT_HEADER, TAG, predict_texts, truncated_header, wrong
from service.compat.openinference_schemas import INPUT, InferAnswer, InferRequest, OutputName
from service.compat.tensors import (
    HEADER,
    Datatype,
    Output,
    cut_tensors,
    read_bytes,
    read_content,
    read_nested,
    split_body,
    write_body,
)
from service.errors import CrossSiteError, MalformedJsonError, NotFoundError, TooManyWeightsError
from service.formats.json import JSON, encode_weights
from service.formats.size_estimates import Form, Size, estimate_size
from service.http.middleware import hurry, seconds_of
from service.routes.bodies import most_values, parse_json, validate
from service.routes.health import check_live, check_ready
from service.routes.openapi import computes, describes, parameter, probes
from service.routes.requests import (
    Context,
    RequestContext,
    State,
    answer_get,
    answers,
    json_response,
    make_router,
    require_key,
    state_of,
)
from service.routes.texts import Texts, encode

router = make_router(tags=[TAG])

_PLATFORM = "pytorch_safetensors"
_MODEL, _VERSION = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
_MODEL_NAME = parameter("model", "path", "The name of the served model.")
_VERSION_NAMES = (_MODEL_NAME, parameter("version", "path", "Its version."))
_LENGTH = parameter(
    HEADER,
    "header",
    "Bytes of the JSON, if tensors follow it as bytes.",
    schema={"type": "integer", "minimum": 0},
)
OCTETS = "application/octet-stream"
#: a body, and headers
_Answer = tuple[bytes, dict[str, str]]
_Values = dict[str, NDArray[Any] | list[str]]

# Each with its shape in the metadata of the model, where -1 is any size.
_OUTPUTS: Mapping[OutputName, tuple[Datatype, tuple[int | str, ...]]] = {
    "label": ("BYTES", (-1,)),
    "probabilities": ("FP32", (-1, "labels")),
    "logits": ("FP32", (-1, "labels")),
    "token_count": ("INT32", (-1,)),
    "truncated": ("BOOL", (-1,)),
    "attention": ("FP32", (1, "layers", "heads", -1, -1)),
    "tokens": ("BYTES", (1, -1)),
}
# What only one text is answered with, and only if it is asked for.
_EXPLAINING: frozenset[OutputName] = frozenset({"attention", "tokens"})
_BY_DEFAULT = [name for name in _OUTPUTS if name not in _EXPLAINING]
_MICROSECONDS = 1_000_000
_SHORTER = "send a shorter text, or ask POST /attention for fewer layers or heads"
_BYTES = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
_EXAMPLES: dict[str, Any] = {
    "two": {
        "summary": "Two texts",
        "value": {
            "inputs": [
                {
                    "name": INPUT,
                    "shape": [2],
                    "datatype": "BYTES",
                    "data": ["A warm, funny film.", "A waste of time."],
                }
            ],
            "outputs": [{"name": "label"}, {"name": "probabilities"}],
        },
    }
}


async def _read(context: RequestContext) -> InferRequest:
    """Reads a request of the protocol; `data` of its input becomes a flat list of the texts."""
    request, state = context.request, context.state
    _require_served(request)
    content = await read_content(context, JSON, OCTETS)
    lengths = request.headers.getlist(HEADER)
    return await context.parse(content, lambda: _parse(content, lengths, state))


def _parse(content: bytes, lengths: Sequence[str], state: State) -> InferRequest:
    head, behind = split_body(content, lengths)
    try:
        value = parse_json(head, most_values(state.settings.max_sentences))
    except MalformedJsonError as error:
        if lengths:
            raise
        hint = f"If tensors follow the JSON as bytes, give its length in {HEADER}."
        raise MalformedJsonError(f"{error.detail} {hint}") from error
    body = validate(InferRequest, value, source="body", context=state.limits)
    body.check_shape(state.settings.max_sentences)
    inputs, place = list(body.inputs), body.place
    tensor = inputs[place]
    part = cut_tensors(behind, [each.binary_size for each in inputs])[place]
    texts: Sequence[object]
    if part is None:
        texts = read_nested(tensor.data, tensor.shape, body.data)
    else:
        texts = read_bytes(part, tensor.shape, body.data)
    inputs[place] = tensor.model_copy(update={"data": texts})
    return body.model_copy(update={"inputs": inputs})


def _infers(*names: dict[str, Any]) -> dict[str, Any]:
    return computes(
        "body",
        InferAnswer,
        *(NotFoundError, TooManyWeightsError, CrossSiteError),
        good={**CUT_HEADER, "content": _BYTES},
        parameters=(*names, _LENGTH),
        requestBody={"content": _BYTES},
    )


@router.post(
    f"{_MODEL}/infer",
    name="infer",
    summary="Inference of the Open Inference Protocol",
    **_infers(_MODEL_NAME),
)
@router.post(
    f"{_VERSION}/infer",
    name="infer_version",
    summary="Inference of one version",
    **_infers(*_VERSION_NAMES),
)
@answers(_read, JSON, OCTETS, same_site=True)
async def infer_model(
    context: Context, body: Annotated[InferRequest, fastapi.Body(openapi_examples=_EXAMPLES)]
) -> Response:
    """Classifies texts; tensors come and go as JSON, or as bytes behind it."""
    if body.options.timeout:
        hurry(context.scope, body.options.timeout / _MICROSECONDS)
        context.client = replace(context.client, seconds=seconds_of(context.scope))
    texts = Texts(body.texts, ReadingOptions(body.options.truncation), body.data)
    if any(name in _EXPLAINING for name in _outputs(body)):
        content, headers = await _explain(context, body, texts)
    else:
        predictions = await predict_texts(context, texts)
        content, headers = _write(context.state, body, predictions, _values(predictions))
    return Response(content, headers=headers, media_type=OCTETS if HEADER in headers else JSON)


def _tells(path: str, name: str, summary: str, *names: dict[str, Any]) -> Callable[..., Any]:
    """Registers an endpoint that describes the server, or the model that the path names."""
    missing = [NotFoundError] if names else []
    operation = describes(dict[str, Any], *missing, parameters=names)
    return answer_get(router, path, name=name, summary=summary, **operation)


@_tells("/v2", "server", "The server, by the Open Inference Protocol")
async def server(request: Request) -> Response:
    """Names the server and the extensions of the protocol that it has."""
    require_key(request)
    extensions = ["binary_tensor_data"]
    content = {"name": "headlight", "version": request.app.version, "extensions": extensions}
    return json_response(content)


@_tells("/v2/models", "models_v2", "The models, by the Open Inference Protocol")
async def models(request: Request) -> Response:
    """Lists the served model."""
    require_key(request)
    return json_response({"models": [state_of(request).checkpoint.name]})


@answer_get(
    router, "/v2/health/live", summary="Whether the server is alive", **probes(dict[str, bool])
)
async def server_live(request: Request) -> Response:
    """Reports that the process answers, and that no forward pass hangs."""
    check_live(request)
    return json_response({"live": True})


@answer_get(
    router, "/v2/health/ready", summary="Whether the server is ready", **probes(dict[str, bool])
)
async def server_ready(request: Request) -> Response:
    """Reports whether requests should be sent here."""
    check_ready(request)
    return json_response({"ready": True})


@_tells(f"{_MODEL}/ready", "model_ready", "Whether the model is ready", _MODEL_NAME)
@_tells(f"{_VERSION}/ready", "model_version_ready", "Whether one version is ready", *_VERSION_NAMES)
async def model_ready(request: Request) -> Response:
    """Reports whether requests for the model should be sent here."""
    require_key(request)
    _require_served(request)
    check_ready(request)
    return json_response({"name": state_of(request).checkpoint.name, "ready": True})


@_tells(_MODEL, "model_metadata", "Inputs and outputs of the model", _MODEL_NAME)
@_tells(_VERSION, "model_version_metadata", "Inputs and outputs of one version", *_VERSION_NAMES)
async def model_metadata(request: Request) -> Response:
    """Names the inputs and outputs of the model."""
    require_key(request)
    _require_served(request)
    checkpoint = state_of(request).checkpoint
    config = checkpoint.config
    sizes = {"labels": len(config.labels), "layers": config.num_layers, "heads": config.num_heads}
    outputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": [sizes.get(str(size), size) for size in shape],
        }
        for name, (datatype, shape) in _OUTPUTS.items()
    ]
    content = {
        "name": checkpoint.name,
        "versions": [checkpoint.version],
        "platform": _PLATFORM,
        "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
        "outputs": outputs,
        "parameters": {"labels": list(config.labels)},
    }
    return json_response(content)


def _require_served(request: Request) -> None:
    """Refuses a model or version that is not served."""
    checkpoint, given = state_of(request).checkpoint, request.path_params
    # The other name is the client's own text, so it is not repeated. On the short way to an
    # endpoint both are right, and the request has no path parameters.
    if given.get("model", checkpoint.name) != checkpoint.name:
        raise NotFoundError("No model of this name is served: GET /v2/models lists what is.")
    if given.get("version", checkpoint.version) != checkpoint.version:
        raise NotFoundError(
            f"This version of the model is not served: ask for {checkpoint.version}, or for none."
        )


def _outputs(body: InferRequest) -> dict[OutputName, bool]:
    """Returns the outputs to answer, each with whether its tensor follows the JSON as bytes."""
    by_default = bool(body.options.binary_data_output)
    if not body.outputs:
        return dict.fromkeys(_BY_DEFAULT, by_default)
    outputs: dict[OutputName, bool] = {}
    for output in body.outputs:
        binary = None if output.parameters is None else output.parameters.binary_data
        outputs[output.name] = by_default if binary is None else binary
    return outputs


async def _explain(context: RequestContext, body: InferRequest, texts: Texts) -> _Answer:
    state = context.state
    count = len(body.texts)
    if count != 1:
        message = f"attention and tokens work with one text, got {count}: leave both out"
        raise wrong(("outputs",), message)
    (encoding,) = await context.prepare(encode(context, texts), body.texts)
    tokens = [token.text for token in encoding.tokens or ()]
    reserved = None
    weights = 0
    outputs = _outputs(body)
    if "attention" in outputs:
        size = _measure(state, tokens, binary=outputs["attention"])
        weights = size.weights
        reserved = context.reserve(size, _SHORTER)

    def write(_: int, explanation: Explanation) -> _Answer:
        """Runs on the worker that computed it."""
        values = _values([explanation.prediction])
        values |= {"attention": explanation.attention[np.newaxis], "tokens": tokens}
        return _write(state, body, [explanation.prediction], values)

    ((content, headers),) = await state.engine.queue.explain(
        [AttentionOptions(encoding)],
        write,
        numbers=weights,
        deadline=context.deadline,
        # It costs as much as a request of this route, and admission estimates by route.
        caller=replace(context.client, route="/attention"),
    )
    if reserved is not None:
        reserved.shrink(len(content))
    return content, headers


def _write(
    state: State, body: InferRequest, predictions: Sequence[Prediction], values: _Values
) -> _Answer:
    outputs = [_output(name, values[name], binary) for name, binary in _outputs(body).items()]
    head = {
        "model_name": state.checkpoint.name,
        "model_version": state.checkpoint.version,
        **({} if body.id is None else {"id": body.id}),
    }
    content, headers = write_body(head, outputs)
    return content, headers | truncated_header(predictions)


def _measure(state: State, tokens: list[str], *, binary: bool) -> Size:
    """Measures an answer with attention; raises TooManyWeightsError."""
    info, most = state.engine.info, state.settings.max_attention_weights
    maps = info.num_layers * info.num_heads
    form: Form = "tensors" if binary else "json"
    size = estimate_size(form, [tokens], maps=maps, float_bytes=4, listed=True)
    if size.weights > most:
        raise TooManyWeightsError(
            f"{info.num_layers} layers of {info.num_heads} heads over {len(tokens)} tokens are "
            f"{size.weights} weights; the limit is {most}: {_SHORTER}."
        )
    return size


def _values(predictions: Sequence[Prediction]) -> _Values:
    """The values of all outputs that any number of texts is answered with."""
    return {
        "label": [each.best for each in predictions],
        "probabilities": np.array(
            [list(each.probabilities.values()) for each in predictions], np.float32
        ),
        "logits": np.array([each.logits for each in predictions], np.float32),
        "token_count": np.array([each.token_count for each in predictions], np.int32),
        "truncated": np.array([each.truncated for each in predictions], np.bool_),
    }


def _output(name: OutputName, values: NDArray[Any] | list[str], binary: bool) -> Output:
    shape: tuple[int, ...]
    if isinstance(values, np.ndarray):
        shape = values.shape
    else:  # the tokens of the one text, or a label for each
        shape = (1, len(values)) if name == "tokens" else (len(values),)
    written = None
    if name == "attention" and not binary:
        assert isinstance(values, np.ndarray)  # noqa: S101 - its type is FP32
        written = encode_weights(values[0], before=b"[", after=b"]")
    return Output(name, _OUTPUTS[name][0], shape, values, binary, written)
