"""The table of errors."""

import orjson

from service.errors import DeadlineError, FieldError


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
    assert DeadlineError("late", retry_after=0.0).retry_after == 1
