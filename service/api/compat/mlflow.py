"""Answers clients of MLflow and SageMaker: `/invocations`, `/ping`, `/version`."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from service.api.compat.answers import InvocationsAnswer
from service.api.compat.invocations import InvocationsRequest, texts_of
from service.api.compat.operations import Examples, computes, probes, tells_text
from service.api.compat.texts import predict_texts, truncated_header
from service.api.requests import admit, read_input
from service.api.routes import answer_get
from service.api.routes.health import ready
from service.formats.json import json_response

router = APIRouter()

_EXAMPLES: Examples = {
    "inputs": ("Texts", {"inputs": ["A warm, funny film.", "A waste of time."]}),
    "dataframe_split": (
        "A table",
        {"dataframe_split": {"columns": ["text"], "data": [["A warm, funny film."]]}},
    ),
}


@router.post(
    "/invocations",
    **computes("invocations", InvocationsRequest, _EXAMPLES, answer=InvocationsAnswer),
)
async def invocations(request: Request) -> Response:
    """Gives the predictions of the texts in a table, a list or a column."""
    admit(request)
    body = await read_input(request, InvocationsRequest)
    predictions = await predict_texts(request, texts_of(body))
    return json_response({"predictions": predictions}, truncated_header(predictions))


@answer_get(router, "/ping", **probes("ping"))
async def ping(request: Request) -> Response:
    """Says whether requests should be sent here."""
    return await ready(request)


@answer_get(router, "/version", **tells_text("version"))
async def tell_version(request: Request) -> Response:  # noqa: ARG001 - every endpoint takes it
    """Tells the version of the service, as plain text."""
    return PlainTextResponse(version("headlight"))
