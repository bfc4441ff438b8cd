"""Answers clients of the Open Inference Protocol, such as those of Triton and KServe: `/v2/…`."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.compat.infer import OCTETS, describe_outputs, infer, read_infer
from service.api.compat.infer_answers import (
    InferAnswer,
    LiveAnswer,
    ModelMetadataAnswer,
    ModelNamesAnswer,
    ModelReadyAnswer,
    ReadyAnswer,
    ServerAnswer,
)
from service.api.compat.infer_schemas import INPUT, InferRequest
from service.api.compat.operations import Examples, computes, describes, probes
from service.api.requests import admit, choose_form, require_api_key, require_same_site
from service.api.routes import answer_get
from service.api.routes.health import live, ready
from service.api.state import state_of
from service.errors import CrossSiteError, NotFoundError, TooManyWeightsError
from service.formats.json import JSON, json_response
from service.formats.tensors import HEADER
from service.http.middleware import hurry

router = APIRouter()

_PLATFORM = "pytorch_safetensors"
_MODEL, _VERSION = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
_NAMES = {"model": "The name of the served model.", "version": "Its version."}
_EXAMPLES: Examples = {
    "two": (
        "Two texts",
        {
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
    ),
}


def _operation(operation: dict[str, Any], path: str) -> dict[str, Any]:
    """Adds the names in a path to an operation."""
    extra = operation["openapi_extra"]
    extra["parameters"] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": description,
            "schema": {"type": "string"},
        }
        for name, description in _NAMES.items()
        if f"{{{name}}}" in path
    ]
    return operation


def _describes(name: str, path: str, answer: object) -> dict[str, Any]:
    return _operation(describes(name, answer, (NotFoundError,)), path)


def _infers(name: str, path: str) -> dict[str, Any]:
    """Describes infer: its JSON, and that bytes may follow."""
    more = (NotFoundError, TooManyWeightsError, CrossSiteError)
    operation = computes(name, InferRequest, _EXAMPLES, *more, answer=InferAnswer)
    octets = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
    operation["openapi_extra"]["requestBody"]["content"] |= octets
    operation["openapi_extra"]["responses"] = {"200": {"content": octets}}
    operation = _operation(operation, path)
    length = {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "Bytes of the JSON, if tensors follow it as bytes.",
        "schema": {"type": "integer", "minimum": 0},
    }
    operation["openapi_extra"]["parameters"].append(length)
    return operation


@router.post(f"{_MODEL}/infer", **_infers("infer", _MODEL))
@router.post(f"{_VERSION}/infer", **_infers("infer_version", _VERSION))
async def infer_model(request: Request) -> Response:
    """Classifies texts; tensors come and go as JSON, or as bytes behind it."""
    require_same_site(request)
    admit(request, JSON, OCTETS)
    _require_served(request)
    wanted = await read_infer(request)
    async with hurry(request.scope, wanted.seconds):
        body, headers = await infer(request, wanted)
    if body.header_length is None:
        return Response(body.content, headers=headers, media_type=JSON)
    headers |= {HEADER: str(body.header_length)}
    return Response(body.content, headers=headers, media_type=OCTETS)


@answer_get(router, "/v2", **describes("server", ServerAnswer))
async def server(request: Request) -> Response:
    """Says which server answers, and which extensions of the protocol it has."""
    _admit(request)
    return json_response(
        {
            "name": "headlight",
            "version": version("headlight"),
            "extensions": ["binary_tensor_data"],
        }
    )


@answer_get(router, "/v2/models", **describes("models_v2", ModelNamesAnswer))
async def models(request: Request) -> Response:
    """Lists the served model."""
    _admit(request)
    return json_response({"models": [state_of(request).checkpoint.name]})


@answer_get(router, "/v2/health/live", **probes("server_live", LiveAnswer))
async def server_live(request: Request) -> Response:
    """Says that the process can answer at all, and that no forward pass hangs."""
    await live(request)
    return json_response({"live": True})


@answer_get(router, "/v2/health/ready", **probes("server_ready", ReadyAnswer))
async def server_ready(request: Request) -> Response:
    """Says whether requests should be sent here."""
    await ready(request)
    return json_response({"ready": True})


@answer_get(router, f"{_MODEL}/ready", **_describes("model_ready", _MODEL, ModelReadyAnswer))
@answer_get(
    router, f"{_VERSION}/ready", **_describes("model_version_ready", _VERSION, ModelReadyAnswer)
)
async def model_ready(request: Request) -> Response:
    """Says whether requests for the model should be sent here."""
    _admit(request)
    _require_served(request)
    await ready(request)
    return json_response({"name": state_of(request).checkpoint.name, "ready": True})


@answer_get(router, _MODEL, **_describes("model_metadata", _MODEL, ModelMetadataAnswer))
@answer_get(router, _VERSION, **_describes("model_version_metadata", _VERSION, ModelMetadataAnswer))
async def model_metadata(request: Request) -> Response:
    """Names the inputs and outputs of the model."""
    _admit(request)
    _require_served(request)
    state = state_of(request)
    checkpoint = state.checkpoint
    return json_response(
        {
            "name": checkpoint.name,
            "versions": [checkpoint.version],
            "platform": _PLATFORM,
            "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
            "outputs": describe_outputs(state),
            "parameters": {"labels": list(checkpoint.config.labels)},
        }
    )


def _admit(request: Request) -> None:
    require_api_key(request)
    choose_form(request, JSON)


def _require_served(request: Request) -> None:
    """Refuses another model and another version than are served."""
    checkpoint, given = state_of(request).checkpoint, request.path_params
    # What was asked for is text of the client's own, so it is not repeated. On the short way to an
    # endpoint both are right, and the request does not tell them.
    if given.get("model", checkpoint.name) != checkpoint.name:
        raise NotFoundError("No model of this name is served: GET /v2/models lists what is.")
    if given.get("version", checkpoint.version) != checkpoint.version:
        raise NotFoundError(
            f"This version of the model is not served: ask for {checkpoint.version}, or for none."
        )
