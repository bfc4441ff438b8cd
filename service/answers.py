"""From results to response bodies: JSON straight from dataclasses and arrays."""

from collections.abc import Sequence

import orjson
from starlette.responses import Response

from model import Explanation, ModelInfo, Prediction
from service.errors import ServiceError

JSON = "application/json"


def json_response(content: object) -> Response:
    """A JSON answer; dataclasses and numpy arrays are encoded without detours."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def predict_answer(
    info: ModelInfo, predictions: Sequence[Prediction | ServiceError]
) -> dict[str, object]:
    """The content of an answer of `POST /predict`."""
    return {
        "model": _name(info),
        "predictions": [
            {"error": item.problem()} if isinstance(item, ServiceError) else item
            for item in predictions
        ],
    }


def attention_answer(info: ModelInfo, explanation: Explanation) -> dict[str, object]:
    """The content of an answer of `/attention`."""
    return {
        "model": _name(info),
        "prediction": explanation.prediction,
        "tokens": explanation.encoding.tokens,
        "layers": explanation.layers,
        "heads": explanation.heads,
        "attention": explanation.attention,
    }


def _name(info: ModelInfo) -> dict[str, str]:
    return {"name": info.name, "version": info.version}
