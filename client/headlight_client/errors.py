"""What can go wrong, as one tree.

HeadlightError
├── NoAnswerError                 nothing listens at the address, or the connection broke
├── TimedOutError                 no answer within `timeout`
│   └── ServiceTimedOutError      the service itself gave up first; a ProblemError too
├── UnexpectedAnswerError         what answered is no Headlight service, or one of another version
└── ProblemError                  the service refused, and says why
    ├── InvalidRequestError       400, 413, 422: mend the request
    ├── UnauthorizedError         401: another key is needed
    ├── UnavailableError          429, 502, 503: come back later, or ask another replica
    └── ServiceTimedOutError      504

What needs no treatment of its own, such as a wrong path, is a plain ProblemError. No message holds
anything of a sentence that was sent, or the key.
"""

from functools import partial
from typing import Any, Self

from headlight_client.answers import FieldError, Problem

_SERVER_ERROR = 500


class HeadlightError(Exception):
    """Base of every error that this package raises on purpose while it asks.

    Args:
        message: what is wrong, and what to do.
        request_id: `X-Request-ID` of the answer, or of the request where there is no answer or it
            has none: the service's log knows the request by it, if it got there.
    """

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id


class NoAnswerError(HeadlightError):
    """Nothing listens at the address, or the connection broke before the answer was there."""


class TimedOutError(HeadlightError):
    """There was no answer in time."""


class UnexpectedAnswerError(HeadlightError):
    """The answer is not one that this version of the client can read."""


class ProblemError(HeadlightError):
    """The service, or something before it, answered with an error.

    Args:
        problem: what it says.
        request_id: as of `HeadlightError`.
    """

    def __init__(self, problem: Problem, *, request_id: str | None = None) -> None:
        message = f"{problem.status} {problem.type}: {problem.detail}"
        # The caller mends what a 4xx names; for the rest somebody has to look into the log.
        if problem.status >= _SERVER_ERROR and request_id is not None:
            message = f"{message} (request {request_id})"
        super().__init__(message, request_id=request_id)
        self.problem = problem

    def __reduce__(self) -> tuple[partial[Self], tuple[Problem], dict[str, Any]]:
        # Exceptions are copied and pickled by their message, which `__init__` does not take.
        again = partial(type(self), request_id=self.request_id)
        return again, (self.problem,), self.__dict__

    @property
    def type(self) -> str:
        """The word that tells errors apart and never changes."""
        return self.problem.type

    @property
    def status(self) -> int:
        """Of the answer."""
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
        """The single faults of the request."""
        return self.problem.errors

    @property
    def retry_after(self) -> float | None:
        """When to come back, in seconds."""
        return self.problem.retry_after


class InvalidRequestError(ProblemError):
    """The request is at fault: blank, too long, too much, or out of range."""


class UnauthorizedError(ProblemError):
    """The service has API keys, and none that is right was sent."""


class UnavailableError(ProblemError):
    """Overloaded, not ready yet, about to end, too many requests, or no replica to ask."""


class ServiceTimedOutError(ProblemError, TimedOutError):
    """The service, or a balancer, gave the request up."""


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
    """The error to raise for a problem, by its status."""
    return _BY_STATUS.get(problem.status, ProblemError)(problem, request_id=request_id)
