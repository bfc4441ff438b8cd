"""Answers clients of Hugging Face and of text-embeddings-inference (TEI)."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.compat.answers import InfoAnswer, LabelScore
from service.api.compat.inputs import InputsRequest, answer_inputs
from service.api.compat.operations import Examples, computes, describes, probes
from service.api.requests import admit, choose_form, read_input, require_api_key
from service.api.routes import answer_get
from service.api.routes.health import ready
from service.api.state import state_of
from service.formats.json import JSON, json_response

router = APIRouter()

_EXAMPLES: Examples = {
    "one": ("One text", {"inputs": "A warm, funny film.", "parameters": {}}),
    "several": (
        "The best label of each of two texts",
        {"inputs": ["A warm, funny film.", "A waste of time."], "parameters": {"top_k": 1}},
    ),
}
# For `POST /predict`.
EXAMPLE = {
    "summary": "In the form of TEI, and answered in it",
    "value": {"inputs": "A warm, funny film."},
}


@router.post(
    "/", **computes("inputs_of_root", InputsRequest, _EXAMPLES, answer=list[list[LabelScore]])
)
@router.post("/hf", **computes("inputs", InputsRequest, _EXAMPLES, answer=list[list[LabelScore]]))
async def classify_inputs(request: Request) -> Response:
    """Lists the labels of each text with their scores, as Hugging Face's clients read them."""
    admit(request)
    body = await read_input(request, InputsRequest)
    return await answer_inputs(request, body, flat=False)


@answer_get(router, "/health", **probes("health"))
async def health(request: Request) -> Response:
    """Says whether requests should be sent here."""
    return await ready(request)


@answer_get(router, "/info", **describes("info", InfoAnswer))
async def info(request: Request) -> Response:
    """Describes the model and its limits, as TEI does."""
    require_api_key(request)
    choose_form(request, JSON)
    state = state_of(request)
    model, settings = state.engine.info, state.settings
    names = {str(index): label for index, label in enumerate(model.labels)}
    return json_response(
        {
            "model_id": model.name,
            "model_sha": model.version,
            "model_dtype": model.dtype,
            "model_type": {
                "classifier": {
                    "id2label": names,
                    "label2id": {label: int(index) for index, label in names.items()},
                }
            },
            "max_input_length": model.max_length,
            "max_batch_tokens": state.engine.max_batch_tokens,
            "max_client_batch_size": settings.max_sentences,
            "auto_truncate": True,
            "version": version("headlight"),
        }
    )
