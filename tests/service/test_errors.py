"""The table of errors."""

import orjson

from service.errors import ALL_ERRORS, DeadlineError, FieldError

TABLE = {
    "malformed-json": 400,
    "unauthorized": 401,
    "cross-site": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "not-acceptable": 406,
    "payload-too-large": 413,
    "too-many-weights": 413,
    "too-much-work": 413,
    "unsupported-media-type": 415,
    "invalid-request": 422,
    "text-too-long": 422,
    "rate-limited": 429,
    "internal": 500,
    "not-installed": 501,
    "overloaded": 503,
    "not-ready": 503,
    "draining": 503,
    "timeout": 504,
}
# Occurs only if ALLOWED_HOSTS is set.
OPTIONAL = {"misdirected": 421}


def test_each_type_has_its_status() -> None:
    assert {error.type: error.status for error in ALL_ERRORS} == TABLE | OPTIONAL


def test_a_complete_answer() -> None:
    error = DeadlineError(
        "full", errors=[FieldError(("body", "sentences", 3), "bad")], retry_after=1.2
    )
    response = error.response()
    assert response.status_code == 504
    assert response.headers["retry-after"] == "2"
    assert response.headers["content-type"] == "application/problem+json"
    assert orjson.loads(response.body) == {
        "type": "/problems/timeout",
        "title": "The request took too long",
        "status": 504,
        "detail": "full",
        "errors": [{"loc": ["body", "sentences", 3], "msg": "bad"}],
        "retry_after": 2,
    }


def test_retry_after_is_at_least_one_second() -> None:
    assert DeadlineError("late", retry_after=0.0).retry_after == 1
