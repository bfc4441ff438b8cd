"""How long a request may take: the service's limit, or less if its client says so."""

import re
from collections.abc import Iterable

from starlette.types import Scope

from service.errors import FieldError, InvalidRequestError

HEADER = "X-Request-Timeout"
_NAME = HEADER.lower().encode("ascii")
_SECONDS = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_KEY = "headlight.deadline"
_FAULT = "must be a number of seconds above 0, such as 2.5, given once"


def allowed_seconds(headers: Iterable[tuple[bytes, bytes]], limit: float) -> float:
    """The time that a request has.

    Args:
        headers: of the request, names in lower case.
        limit: the service's own, in seconds; no client gets more.

    Raises:
        InvalidRequestError: the header is there and is not a number of seconds above 0.
    """
    given = [value for name, value in headers if name == _NAME]
    if not given:
        return limit
    seconds = float(given[0]) if len(given) == 1 and _SECONDS.fullmatch(given[0]) else 0.0
    if seconds <= 0:
        errors = [FieldError(("header", HEADER), _FAULT)]
        raise InvalidRequestError(f"{HEADER}: {_FAULT}.", errors=errors)
    return min(seconds, limit)


def set_deadline(scope: Scope, deadline: float) -> None:
    """Notes until when a request can be answered, by the event loop's clock."""
    scope[_KEY] = deadline


def deadline_of(scope: Scope) -> float:
    """Until when a request can be answered, by the event loop's clock."""
    deadline: float = scope[_KEY]
    return deadline
