"""Defines every error of this package, as one tree.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from headlight_client.answers import FieldError, ItemError, Prediction, Problem

_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class FailedPart:
    """Sentences `start` to `stop` of `total`, which failed when several requests were sent.

    Args:
        start: index of its first sentence.
        stop: index behind its last sentence.
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


class NoAnswerError(HeadlightError):
    """Nothing listens at the address, or the connection broke before the answer was complete."""


class TimedOutError(HeadlightError):
    """No answer came in time."""


class UnexpectedAnswerError(HeadlightError):
    """This version of the client cannot read the answer."""


class ProblemError(HeadlightError):
    """The service, or something in front of it, answered with an error: its `problem`."""

    def __init__(self, problem: Problem, *, request_id: str | None = None) -> None:
        super().__init__(_message(problem, request_id), request_id=request_id)
        self.problem = problem

    def replace_problem(self, problem: Problem) -> None:
        """Sets the problem and the message that is made of it."""
        self.problem = problem
        self.args = (_message(problem, self.request_id),)

    def __reduce__(self) -> tuple[partial[Self], tuple[Problem], dict[str, Any]]:
        # By default an exception is copied by its message, which `__init__` does not take.
        again = partial(type(self), request_id=self.request_id)
        return again, (self.problem,), self.__dict__

    @property
    def type(self) -> str:
        """A stable word that identifies the error."""
        return self.problem.type

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.problem.status

    @property
    def title(self) -> str:
        """The type in words."""
        return self.problem.title

    @property
    def detail(self) -> str:
        """What is wrong this time, the limit, and what to do."""
        return self.problem.detail

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """Each error of the request."""
        return self.problem.errors

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next try."""
        return self.problem.retry_after

    @property
    def fits(self) -> Mapping[str, int] | None:
        """How much would not be too much work: `tokens` of all texts, or `steps`."""
        return self.problem.fits


class InvalidRequestError(ProblemError):
    """The request is wrong: blank, too long, too large, or out of range."""


class UnauthorizedError(ProblemError):
    """The service has API keys, and the request had no valid one."""


class UnavailableError(ProblemError):
    """The service is overloaded, not ready or ending, or a balancer rejected the request."""


class ServiceTimedOutError(ProblemError, TimedOutError):
    """The service, or a balancer, gave up on the request."""


def _message(problem: Problem, request_id: str | None) -> str:
    message = f"{problem.status} {problem.type}: {problem.detail}"
    # The caller corrects a 4xx. For a 5xx somebody has to look into the log.
    if problem.status >= _SERVER_ERROR and request_id is not None:
        message = f"{message} (request {request_id})"
    return message


_BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: ServiceTimedOutError,
}


def problem_error(problem: Problem, *, request_id: str | None) -> ProblemError:
    """Returns the error to raise for a problem, by its status."""
    return _BY_STATUS.get(problem.status, ProblemError)(problem, request_id=request_id)
