"""Defines every error of this package, as one tree, and reads those of the service.

HeadlightError
├── NoAnswerError                 nothing listens at the address, or the connection broke
├── TimedOutError                 no answer within `timeout`
│   └── ServiceTimedOutError      the service itself gave up first; a ProblemError too
├── UnexpectedAnswerError         the answer is not from a Headlight service, or of another version
└── ProblemError                  the service rejected the request, and says why
    ├── InvalidRequestError       400, 413, 422: correct the request
    ├── UnauthorizedError         401: another key is needed
    ├── UnavailableError          429, 502, 503: come back later, or ask another replica
    └── ServiceTimedOutError      504

Any other rejection, such as a wrong path, is a plain ProblemError. No message holds text of a
sentence or the key.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from headlight_client.answers import Answer, FieldError, ItemError, Prediction, Problem

PROBLEM_PREFIX = "/problems/"  # of a type, on the wire
# A longer number is no sensible wait, and a very long one is more than `int` accepts.
_SECONDS = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class FailedPart:
    """Sentences `start` to `stop - 1` of `total`, which failed when several requests were sent.

    Args:
        predictions: the answers so far, by the index of the sentence; None for the rest.
    """

    start: int
    stop: int
    total: int
    predictions: tuple[Prediction | ItemError | None, ...] = field(repr=False)

    def __str__(self) -> str:
        done = sum(prediction is not None for prediction in self.predictions)
        return (
            f"sentences {self.start} to {self.stop - 1} of {self.total} failed; the {done} "
            "answers so far are in part.predictions of this error"
        )


class HeadlightError(Exception):
    """Base of every error that this package raises on purpose during a call.

    `part` shows which sentences failed if they were sent in several requests, and holds the
    answers of the others; else it is None.

    Args:
        message: what is wrong, and what to do.
        request_id: `X-Request-ID` of the answer; that of the request if the answer has none. If
            the request reached the service, its log has this id.
    """

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.part: FailedPart | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.part is None else f"{message} ({self.part})"

    def __reduce__(self) -> tuple[object, ...]:
        # By default its message becomes the arguments of `__init__`, which may take others.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class NoAnswerError(HeadlightError):
    """Nothing listens at the address, or the connection broke before the answer was complete."""


class TimedOutError(HeadlightError):
    """No answer came in time."""


class UnexpectedAnswerError(HeadlightError):
    """This version of the client cannot read the answer."""


class ProblemError(HeadlightError):
    """The service, or something in front of it, answered with an error: its `problem`.

    The error has each member of the problem too, such as `type` and `retry_after`.
    """

    def __init__(self, problem: Problem, *, request_id: str | None = None) -> None:
        super().__init__("", request_id=request_id)
        self.replace_problem(problem)

    def replace_problem(self, problem: Problem) -> None:
        """Sets the problem and the message that is made of it."""
        self.problem = problem
        self.type, self.status = problem.type, problem.status
        self.title, self.detail = problem.title, problem.detail
        self.errors, self.fits = problem.errors, problem.fits
        self.retry_after = problem.retry_after
        message = f"{problem.status} {problem.type}: {problem.detail}"
        # The caller corrects a 4xx. For a 5xx somebody has to look into the log.
        if problem.status >= httpx.codes.INTERNAL_SERVER_ERROR and self.request_id is not None:
            message = f"{message} (request {self.request_id})"
        self.args = (message,)


class InvalidRequestError(ProblemError):
    """The request is wrong: blank, too long, too large, or out of range."""


class UnauthorizedError(ProblemError):
    """The service has API keys, and the request had no valid one."""


class UnavailableError(ProblemError):
    """The service is overloaded, not ready or ending, or a balancer rejected the request."""


class ServiceTimedOutError(ProblemError, TimedOutError):
    """The service, or a balancer, gave up on the request."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    **dict.fromkeys((400, 413, 422), InvalidRequestError),
    401: UnauthorizedError,
    **dict.fromkeys((429, 502, 503), UnavailableError),
    504: ServiceTimedOutError,
}


def read_problem(answer: Answer, *, request_id: str) -> ProblemError:
    """Reads an error answer. Only the status decides the class of the error.

    No member of a problem is required (RFC 9457), and a gateway may say less than the service. The
    status replaces a member that is missing or of another type.
    """
    phrase = httpx.codes.get_reason_phrase(answer.status) or f"Status {answer.status}"
    problem = Problem(
        type="about:blank",
        status=answer.status,
        title=phrase,
        detail=f"{phrase}: something before the service answered in its place",
        retry_after=_retry_after(answer.headers),
    )
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        problem = replace(problem, **_members(answer.content))
    request_id = answer.headers.get("x-request-id", request_id)
    return _BY_STATUS.get(answer.status, ProblemError)(problem, request_id=request_id)


def _members(body: bytes) -> dict[str, Any]:
    """Returns the members of a problem that have the right type, without the status."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    members: dict[str, Any] = {
        name: content[name]
        for name in ("type", "title", "detail")
        if isinstance(content.get(name), str)
    }
    if "type" in members:
        members["type"] = members["type"].removeprefix(PROBLEM_PREFIX)
    if isinstance(content.get("errors"), list):
        members["errors"] = tuple(
            FieldError(tuple(each["loc"]), each["msg"])
            for each in content["errors"]
            if isinstance(each, dict)
            and isinstance(each.get("loc"), list)
            and isinstance(each.get("msg"), str)
        )
    seconds: Any = content.get("retry_after")
    # In Python True is a number, and the JSON parser accepts NaN and Infinity.
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 <= seconds < math.inf:
        members["retry_after"] = seconds
    fits: Any = content.get("fits")
    if isinstance(fits, dict) and all(type(most) is int for most in fits.values()):
        members["fits"] = fits
    return members


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
