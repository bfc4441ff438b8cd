"""Answers `GET /model` with a description of the served model and its limits."""

from dataclasses import asdict
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from model.explain.attribution import MOST_STEPS, Method
from model.explain.views import MOST_SIDE
from model.tokenization.sentences import MAX_SENTENCES
from model.tokenization.tokenizer import MOST_GROWN
from service.http.protocol import LARGEST_HEAD
from service.http.server import plan_capacity
from service.metrics import EXPLICIT, FUSED
from service.routes.attention import most_weights
from service.routes.bodies import MOST_PARAMETERS, most_values
from service.routes.openapi import describes
from service.routes.request_schemas import MOST_NUMBERS
from service.routes.requests import (
    State,
    answer_get,
    json_response,
    make_router,
    require_key,
    state_of,
)
from service.routes.schemas import ModelAnswer

router = make_router(tags=["model"])


@answer_get(router, "/model", summary="The served model and its limits", **describes(ModelAnswer))
async def model(request: Request) -> Response:
    """Describes the model, its accuracy in training, and the limits of requests."""
    require_key(request)
    state = state_of(request)
    info = state.engine.info
    kept, derived = info.thresholds, [*get_args(Method), "importance"]
    return json_response(
        {
            **asdict(info),
            "metrics": [metric.model_dump() for metric in info.metrics],
            "thresholds": kept
            and {"sets": kept.sets, "rows": kept.rows, "by_threshold": kept.reports()},
            # What can be asked without a wait for what it needs.
            "methods": ["leave_out", *(derived if state.engine.predictor.has_gradients else ())],
            "limits": _limits(state),
        }
    )


def _limits(state: State) -> dict[str, object]:
    """Returns every limit beyond which a request is refused; a setting has its own name."""
    settings = state.settings
    max_weights, length = settings.max_attention_weights, state.checkpoint.manifest.max_length
    work = state.engine.limits
    return {
        "max_length": length,
        "max_windows": settings.max_windows,
        "max_sentences": settings.max_sentences,
        "max_item_sentences": MAX_SENTENCES,
        "max_body_bytes": settings.max_body_bytes,
        "max_head_bytes": LARGEST_HEAD,
        "max_query_parameters": MOST_PARAMETERS,
        "max_values": most_values(settings.max_sentences),
        "max_numbers": MOST_NUMBERS,
        "max_steps": MOST_STEPS,
        "max_attention_weights": max_weights,
        "max_svg_weights": most_weights("svg", max_weights),
        "max_thumbnail": MOST_SIDE,
        "max_sending_bytes": state.budget.most,
        "max_normalized_characters": MOST_GROWN,
        "max_work_tokens": work.most_tokens(FUSED, settings.request_timeout),
        "max_attention_tokens": work.most_tokens(EXPLICIT, settings.request_timeout),
        "max_work_steps": work.most_steps(length, settings.request_timeout),
        "max_queue_tokens": settings.max_queue_tokens,
        "max_connections": plan_capacity(settings.max_connections).connections,
        "request_timeout": settings.request_timeout,
        "rate_limit": settings.rate_limit and str(settings.rate_limit),
        "token_quota": settings.token_quota and str(settings.token_quota),
    }
