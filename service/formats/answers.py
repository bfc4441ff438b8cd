"""From results to response bodies: JSON straight from dataclasses and arrays."""

from collections.abc import Sequence

import orjson
from starlette.responses import Response

from model import Attribution, HeadImportance, ModelInfo, Prediction
from model.views import RAW, Level
from service.errors import ServiceError
from service.formats.json import encode_weights
from service.formats.views import View

JSON = "application/json"


def json_response(content: object) -> Response:
    """A JSON answer; dataclasses are encoded without detours."""
    return Response(orjson.dumps(content), media_type=JSON)


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


def attention_body(info: ModelInfo, view: View) -> memoryview:
    """The answer of `/attention` for one sentence as JSON.

    Raises:
        ValueError: a weight is not a number from 0 to 1.
    """
    content = {
        "model": _name(info),
        "prediction": view.prediction,
        "tokens": view.tokens,
        "layers": view.layers,
        "heads": view.heads,
    }
    if view.name != RAW:
        content["view"] = view.name
    before = orjson.dumps(content)[:-1] + b',"attention":'
    return encode_weights(view.attention, before=before, after=b"}")


def attributions_answer(
    info: ModelInfo, attribution: Attribution, *, level: Level
) -> dict[str, object]:
    """The content of an answer of `/attributions`."""
    return {
        "model": _name(info),
        "prediction": attribution.prediction,
        "view": attribution.method + ("+word" if level == "word" else ""),
        "label": attribution.label,
        "tokens": attribution.tokens,
        "attributions": attribution.attributions.tolist(),
        "steps": attribution.steps,
        "value": attribution.value,
        "baseline_value": attribution.baseline_value,
        "gap": attribution.gap,
    }


def importance_answer(info: ModelInfo, heads: HeadImportance) -> dict[str, object]:
    """The content of an answer of `/importance`."""
    return {
        "model": _name(info),
        "prediction": heads.prediction,
        "view": "head_importance",
        "label": heads.label,
        "layers": list(range(info.num_layers)),
        "heads": list(range(info.num_heads)),
        "importance": heads.importance.tolist(),
    }


def _name(info: ModelInfo) -> dict[str, str]:
    return {"name": info.name, "version": info.version}
