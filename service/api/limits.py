"""Tells a client every limit beyond which a request is refused, from where it is enforced."""

from model.explain.attribution import MOST_STEPS
from model.explain.thumbnails import MOST_SIDE
from model.tokenization.excerpt import MOST_GROWN
from service.api.attention import MOST_TEXT, most_weights
from service.api.input import MOST_PARAMETERS
from service.api.schemas import MOST_NUMBERS
from service.api.state import State
from service.http.connections import plan_capacity
from service.http.protocol import LARGEST_HEAD
from service.settings import Rate


def describe_limits(state: State) -> dict[str, int | float | str | None]:
    """Returns the limits by their names, in the order of `LimitsAnswer`.

    Those that are settings have the name of the setting.

    Args:
        state: its settings and its checkpoint limit requests.
    """
    settings = state.settings
    max_weights = settings.max_attention_weights
    return {
        "max_length": state.checkpoint.manifest.max_length,
        "max_windows": settings.max_windows,
        "max_sentences": settings.max_sentences,
        "max_item_sentences": settings.max_item_sentences,
        "max_body_bytes": settings.max_body_bytes,
        "max_head_bytes": LARGEST_HEAD,
        "max_query_parameters": MOST_PARAMETERS,
        "max_numbers": MOST_NUMBERS,
        "max_steps": MOST_STEPS,
        "max_attention_weights": max_weights,
        "max_csv_weights": most_weights("csv", max_weights),
        "max_svg_weights": most_weights("svg", max_weights),
        "max_thumbnail": MOST_SIDE,
        "max_text_bytes": MOST_TEXT,
        "max_sending_bytes": settings.max_sending_bytes,
        "max_normalized_characters": MOST_GROWN,
        "max_queue_tokens": settings.max_queue_tokens,
        "max_connections": plan_capacity(settings.max_connections).connections,
        "request_timeout": settings.request_timeout,
        "rate_limit": _shown(settings.rate_limit),
        "token_quota": _shown(settings.token_quota),
    }


def _shown(rate: Rate | None) -> str | None:
    return None if rate is None else str(rate)
