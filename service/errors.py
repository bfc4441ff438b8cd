"""Defines every error that a client can get, each with its status.

ServiceError
├── MalformedJsonError          400
├── UnauthorizedError           401
├── CrossSiteError              403
├── NotFoundError               404
├── MethodNotAllowedError       405
├── NotAcceptableError          406
├── PayloadTooLargeError        413
├── TooManyWeightsError         413
├── TooMuchWorkError            413
├── UnsupportedMediaTypeError   415
├── MisdirectedError            421
├── InvalidRequestError         422
├── SentenceTooLongError        422
├── RateLimitedError            429
├── InternalError               500
├── NotInstalledError           501
├── OverloadedError             503
├── NotReadyError               503
├── DrainingError               503
└── DeadlineError               504

An answer is `application/problem+json` (RFC 9457). No message repeats text of the user.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import EllipsisType
from typing import ClassVar, TypeVar

import orjson
from starlette.responses import Response

PROBLEM_MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "/problems/"

Loc = tuple[str | int, ...]
Raised = TypeVar("Raised", bound=BaseException)


class Refusal(StrEnum):
    """Why a valid request is refused; another replica or a later time may answer it."""

    CONNECTIONS = "connections"  #: all connections are taken
    DEADLINE = "deadline"  #: the work before it would take too long
    DRAINING = "draining"  #: the process is about to end
    MEMORY = "memory"  #: the memory is nearly full
    NOT_READY = "not_ready"  #: the model is still loading, failed to, or is lost
    QUOTA = "quota"  #: the client sends too many tokens
    QUEUE_FULL = "queue_full"  #: too many tokens wait
    RATE_LIMIT = "rate_limit"  #: the client sends too many requests
    SENDING = "sending"  #: too many bytes of answers wait to be sent


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a request; `loc` is `body`, `query` or `header`, then names and indices."""

    loc: Loc
    msg: str

    def __str__(self) -> str:
        """Puts the place, such as `instances[3].text`, before a message that does not name it."""
        if self.msg.startswith("`"):
            return self.msg
        parts = [
            f"[{part}]" if isinstance(part, int) else f".{part}"
            for part in self.loc[1:] or self.loc
        ]
        return f"{''.join(parts).removeprefix('.')}: {self.msg}"


class ServiceError(Exception):
    """Base of all errors; each is answered with a problem, and its docstring says when.

    Args:
        detail: what happened, the value, the limit, and what to do.
        errors: the single errors, if there are several places to name.
        retry_after: seconds until a retry makes sense; sent as whole seconds, rounded up.
        headers: further response headers.
        refusal: why the request is refused, if it is valid; `usual_refusal` if left out.
        fits: how much would not be too much, by its unit.
    """

    type: ClassVar[str]
    title: ClassVar[str]
    status: ClassVar[int]
    #: when it is answered, and what the client can do about it; backticks stand round code
    when: ClassVar[str]
    remedy: ClassVar[str]
    usual_refusal: ClassVar[Refusal | None] = None

    def __init_subclass__(cls) -> None:
        """Takes `when` from the docstring."""
        text = " ".join((cls.__doc__ or "").split()).removesuffix(".")
        cls.when = text[:1].lower() + text[1:]

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        refusal: Refusal | EllipsisType | None = ...,
        fits: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = None if retry_after is None else max(1, math.ceil(retry_after))
        self.headers = dict(headers or {})
        self.refusal = self.usual_refusal if refusal is ... else refusal
        self.fits = fits

    def problem(self, *, with_error: bool = False) -> dict[str, object]:
        """Returns the members as they are sent; for other systems, `error` repeats `detail`."""
        members: dict[str, object] = {
            "type": TYPE_PREFIX + self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            members["errors"] = self.errors
        if self.retry_after is not None:
            members["retry_after"] = self.retry_after
        if self.fits is not None:
            members["fits"] = self.fits
        if with_error:
            members["error"] = self.detail
        return members

    def response(self, *, with_error: bool = False, trace_id: str | None = None) -> Response:
        """Makes the whole answer; `trace_id` is that of a traced request."""
        members = self.problem(with_error=with_error)
        if trace_id is not None:
            members["trace_id"] = trace_id
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return Response(
            orjson.dumps(members),
            status_code=self.status,
            headers=headers,
            media_type=PROBLEM_MEDIA_TYPE,
        )


class MalformedJsonError(ServiceError):
    """The body is empty, is not UTF-8 JSON, is nested too deep, or is followed by something
    else.
    """

    type, title, status = "malformed-json", "The body is not JSON", 400
    remedy = "send one JSON object"


class UnauthorizedError(ServiceError):
    """Keys are set and the request has no valid one; `detail` says whether a key is wrong or
    missing, and the answer has the header `WWW-Authenticate: Bearer`, with `error="invalid_token"`
    if a key was sent.
    """

    type, title, status = "unauthorized", "An API key is needed", 401
    remedy = "send `Authorization: Bearer <key>`"


class CrossSiteError(ServiceError):
    """A page of another origin made a browser send `GET /attention`, or `infer`
    (`Sec-Fetch-Site`).
    """

    type, title, status = "cross-site", "Requests from other origins are not allowed here", 403
    remedy = "send it with `POST`, or name the page's origin in `ALLOWED_ORIGINS`"


class NotFoundError(ServiceError):
    """Nothing is at this path."""

    type, title, status = "not-found", "Nothing is here", 404
    remedy = "look at `GET /docs`, which shows what there is"


class MethodNotAllowedError(ServiceError):
    """The path does not take this method; the header `Allow` lists those it takes."""

    type, title, status = "method-not-allowed", "The method is not allowed", 405
    remedy = "use one of those"


class NotAcceptableError(ServiceError):
    """`Accept` names no form that is offered."""

    type, title, status = "not-acceptable", "None of the forms asked for is offered", 406
    remedy = "accept `application/json`, or leave `Accept` out"


class PayloadTooLargeError(ServiceError):
    """The body is larger than `MAX_BODY_BYTES`, by its declared length or as its bytes arrive; the
    connection is closed.
    """

    type, title, status = "payload-too-large", "The body is too large", 413
    remedy = "send fewer sentences at once"


class TooManyWeightsError(ServiceError):
    """An answer of `/attention` or `/attention/steps` would hold more than `MAX_ATTENTION_WEIGHTS`
    numbers, or be too large with its texts.
    """

    type, title, status = "too-many-weights", "The attention weights are too many", 413
    remedy = "choose layers and heads, or shorten the text"


class TooMuchWorkError(ServiceError):
    """Even an idle replica cannot compute it in time; `fits` says how many `tokens` or `steps` it
    can.
    """

    type, title, status = "too-much-work", "The request is too much work", 413
    remedy = "divide the texts among several requests, or ask for fewer steps"


class UnsupportedMediaTypeError(ServiceError):
    """The content type is missing or is not JSON in UTF-8, or the body is compressed."""

    type, title, status = "unsupported-media-type", "The body must be plain JSON", 415
    remedy = "send `Content-Type: application/json` and plain bytes"


class MisdirectedError(ServiceError):
    """`ALLOWED_HOSTS` is set, and the header `Host` names none of them."""

    type, title, status = "misdirected", "The service has another name", 421
    remedy = "use one of the service's own names"


class InvalidRequestError(ServiceError):
    """A field is missing, unknown, given twice, of the wrong type or out of range; a text is blank
    or not valid Unicode; or `X-Request-Timeout` is not a number of seconds.
    """

    type, title, status = "invalid-request", "The request is not valid", 422
    remedy = "correct what `errors` lists"


class SentenceTooLongError(ServiceError):
    """`truncation` is `error` and the text does not fit, or it is `window` and the text takes more
    than `MAX_WINDOWS` windows; the text has more than 1,024 sentences, and `granularity` is
    `sentence`; or the normalizer of a foreign checkpoint makes a long text more than four times as
    long.
    """

    type, title, status = "text-too-long", "The text is too long", 422
    remedy = "shorten it, or allow truncation"


class RateLimitedError(ServiceError):
    """The key or the address has used up its requests or tokens."""

    type, title, status = "rate-limited", "The client asks for too much", 429
    remedy = "try again after `Retry-After`"


class InternalError(ServiceError):
    """An error of the service, or a text that the model cannot compute; the log explains it."""

    type, title, status = "internal", "The service failed", 500
    remedy = (
        "try again, unless `detail` says that it would fail too, and give the `X-Request-ID` to "
        "the operator"
    )


class NotInstalledError(ServiceError):
    """The method needs a package that is not installed."""

    type, title, status = "not-installed", "The method is not installed", 501
    remedy = "ask a replica that has the package, or use another method"


class OverloadedError(ServiceError):
    """The queue has no room, or the wait would be longer than the request has; large answers that
    clients have not read leave no room; all connections are taken, or the memory nearly is.
    """

    type, title, status = "overloaded", "The service is overloaded", 503
    remedy = "try again after `Retry-After`, or ask another replica"


class NotReadyError(ServiceError):
    """The model is loading or could not be loaded, or a forward pass failed or hangs."""

    type, title, status = "not-ready", "The model is not ready", 503
    remedy = "try again after `Retry-After`, or ask another replica"
    usual_refusal = Refusal.NOT_READY


class DrainingError(ServiceError):
    """The drain time is over and the process is about to end; `/health/ready` says it from the
    start of the drain.
    """

    type, title, status = "draining", "The service is shutting down", 503
    remedy = "ask another replica"
    usual_refusal = Refusal.DRAINING


class DeadlineError(ServiceError):
    """No answer was ready within `REQUEST_TIMEOUT` or `X-Request-Timeout`; the work was dropped."""

    type, title, status = "timeout", "The request took too long", 504
    remedy = "send less at once, or try again later"


def invalid(
    loc: Loc, message: str, error: type[ServiceError] = InvalidRequestError
) -> ServiceError:
    """Returns an error of one place of a request; `loc` as in `FieldError`."""
    found = FieldError(loc, message)
    return error(f"{found}.", errors=[found])


def without_frames(error: Raised) -> Raised:
    """Drops the frames of an error and its causes: they hold what was sent, and often the error.

    Else only the garbage collector would free both, and it seldom looks at what is old.
    """
    found: list[BaseException] = [error]
    for each in found:
        each.__traceback__ = None
        led = (each.__cause__, each.__context__)
        found += [other for other in led if other is not None and other not in found]
    return error


ALL_ERRORS = tuple(ServiceError.__subclasses__())  # in the order above

NOT_FOUND_DETAIL = "Nothing is at this path: GET /docs shows what there is."
UNCOMPUTABLE_DETAIL = (
    "The model cannot compute an answer for this text. Trying again would fail too: leave the "
    "text out, and report the X-Request-ID to the operator of the service."
)
UNREADABLE_DETAIL = (
    "The tokenizer of the model cannot read this text. Trying again would fail too: leave the "
    "text out, and report the X-Request-ID to the operator of the service."
)
INTERNAL_DETAIL = (
    "The service failed to answer. Nothing is wrong with the request as far as is known; "
    "try again, and report the X-Request-ID to the operator of the service."
)
