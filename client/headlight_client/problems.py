"""From an answer that is an error to the `ProblemError` that is raised.

No member of a problem is required (RFC 9457), and a gateway may say less than the service: what is
missing or of another type is made up from the status.
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
# More digits than any wait has, and more than `int` takes, are no number of seconds.
_SECONDS = re.compile("[0-9]{1,9}")


def read_problem(answer: Answer, *, request_id: str) -> ProblemError:
    """Reads an error. Its status alone decides what kind it is.

    Args:
        answer: with a status of 400 or more.
        request_id: that was sent, for an answer that repeats none.
    """
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
    """Reads the error of one sentence; what is missing raises one of `reading.MALFORMED`."""
    members = ("type", "status", "title", "detail")
    error = ItemError(**{name: content[name] for name in members})
    return replace(error, **_members(content))


def _object(content: bytes) -> Mapping[str, Any]:
    """The members of a JSON object, none if it is not one."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _members(content: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a problem, but for the status, that are of the type that they should have."""
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
    # True is a number to Python; JSON as Python reads it has NaN and Infinity.
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 <= seconds < math.inf:
        members["retry_after"] = seconds
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
    """Seconds to wait by `Retry-After`, which is a number of them or a date; None without one."""
    wanted = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(wanted):
        return int(wanted)
    until = _date(wanted)
    if until is None:
        return None
    # The clock of whoever set the date; the two machines need not agree on the time.
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
