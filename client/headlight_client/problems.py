"""Reads error answers into the `ProblemError` to raise.

No member of a problem is required (RFC 9457), and a gateway may say less than the service. The
status replaces a member that is missing or of another type.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from headlight_client.answers import Answer, FieldError, ItemError, Problem
from headlight_client.errors import ProblemError, problem_error

_PROBLEM_PREFIX = "/problems/"
# A longer number is no sensible wait, and a very long one is more than `int` accepts.
_SECONDS = re.compile("[0-9]{1,9}")


def read_problem(answer: Answer, *, request_id: str) -> ProblemError:
    """Reads an error. Only the status decides its class."""
    phrase = _phrase(answer.status)
    problem = Problem(
        type="about:blank",
        status=answer.status,
        title=phrase,
        detail=f"{phrase}: something before the service answered in its place",
        retry_after=_retry_after(answer.headers),
    )
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        problem = replace(problem, **_members(_object(answer.content)))
    return problem_error(problem, request_id=answer.headers.get("x-request-id", request_id))


def read_item_error(content: Mapping[str, Any]) -> ItemError:
    """Reads the error of one sentence; a missing member raises one of `reading.MALFORMED`."""
    members = ("type", "status", "title", "detail")
    error = ItemError(**{name: content[name] for name in members})
    return replace(error, **_members(content))


def _object(content: bytes) -> Mapping[str, Any]:
    """Parses a JSON object; returns an empty one if the content is not an object."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _members(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of a problem that have the right type, without the status."""
    members: dict[str, Any] = {
        name: content[name]
        for name in ("type", "title", "detail")
        if isinstance(content.get(name), str)
    }
    if "type" in members:
        members["type"] = members["type"].removeprefix(_PROBLEM_PREFIX)
    if isinstance(content.get("errors"), list):
        members["errors"] = tuple(map(_field_error, filter(_is_field_error, content["errors"])))
    seconds: Any = content.get("retry_after")
    # In Python True is a number, and the JSON parser accepts NaN and Infinity.
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 <= seconds < math.inf:
        members["retry_after"] = seconds
    fits: Any = content.get("fits")
    if isinstance(fits, dict) and all(type(most) is int for most in fits.values()):
        members["fits"] = fits
    return members


def _is_field_error(content: object) -> bool:
    return (
        isinstance(content, dict)
        and isinstance(content.get("loc"), list)
        and isinstance(content.get("msg"), str)
    )


def _field_error(content: Mapping[str, Any]) -> FieldError:
    return FieldError(tuple(content["loc"]), content["msg"])


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Reads `Retry-After`, a number of seconds or a date, as seconds; None without one."""
    wanted = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(wanted):
        return int(wanted)
    until = _date(wanted)
    if until is None:
        return None
    # Compare with the sender's clock: the two machines may differ.
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0, math.ceil((until - now).total_seconds()))


def _date(header: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"Status {status}"
