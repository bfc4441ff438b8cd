"""Chooses the form of an answer from the header `Accept` (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence

from service.errors import NotAcceptableError

# A browser sends some 100 characters. To read 100,000 would keep the event loop for long.
_LONGEST = 4096


def negotiate(accept: Sequence[str], offered: Sequence[str]) -> str:
    """Returns the offered media type with the highest quality; the first of equals.

    Args:
        accept: values of all `Accept` headers; without one, any form will do.
        offered: media types, the preferred one first, at least one.

    Raises:
        NotAcceptableError: none has a quality above 0, or the headers are too long.
    """
    length = sum(map(len, accept))
    if length > _LONGEST:
        raise NotAcceptableError(
            f"Accept has {length} characters; the limit is {_LONGEST}: name {offered[0]} only."
        )
    ranges = [_parse(part) for value in accept for part in value.split(",") if part.strip()]
    if not ranges:
        return offered[0]
    qualities = {media_type: _quality(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: qualities[media_type])
    if qualities[best] <= 0:
        raise NotAcceptableError(
            f"Accept names none of what is offered here: {', '.join(offered)}."
        )
    return best


def _parse(part: str) -> tuple[str, float]:
    media_range, *parameters = (word.strip().lower() for word in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            quality = _number(value.strip())
    return media_range, quality


def _number(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The quality that the most specific range gives; 0 if none fits."""
    family = media_type.partition("/")[0]
    for pattern in (media_type, f"{family}/*", "*/*"):
        qualities = [quality for media_range, quality in ranges if media_range == pattern]
        if qualities:
            return max(qualities)
    return 0.0
