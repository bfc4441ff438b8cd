"""Chooses the form of an answer from the header `Accept` (RFC 9110, section 12.5.1)."""

from collections.abc import Mapping, Sequence

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
    header = ",".join(accept)
    if len(header) > _LONGEST:
        raise NotAcceptableError(
            f"Accept has {len(header)} characters; the limit is {_LONGEST}: name {offered[0]} only."
        )
    qualities = dict(_parse(part) for part in header.split(",") if part.strip())
    best = max(offered, key=lambda media_type: _quality(media_type, qualities))
    if qualities and _quality(best, qualities) <= 0:
        raise NotAcceptableError(
            f"Accept names none of what is offered here: {', '.join(offered)}."
        )
    return best


def _parse(part: str) -> tuple[str, float]:
    media_range, *parameters = (word.strip().lower() for word in part.split(";"))
    given = [
        value.strip()
        for name, _, value in (p.partition("=") for p in parameters)
        if name.strip() == "q"
    ]
    try:
        quality = float(given[-1]) if given else 1.0
    except ValueError:
        quality = 0.0
    return media_range, quality if 0.0 <= quality <= 1.0 else 0.0


def _quality(media_type: str, qualities: Mapping[str, float]) -> float:
    """The quality that the most specific range gives; 0 if none fits."""
    family = media_type.partition("/")[0]
    ranges = (media_type, f"{family}/*", "*/*")
    return next((qualities[each] for each in ranges if each in qualities), 0.0)
