"""Errors with and without a problem, whole and damaged: the status tells their kind."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_client import (
    FieldError,
    InvalidRequestError,
    Problem,
    ProblemError,
    ServiceTimedOutError,
    UnauthorizedError,
    UnavailableError,
)
from headlight_client.answers import Answer
from headlight_client.errors import read_problem

KINDS = [
    (400, "Bad Request", InvalidRequestError),
    (401, "Unauthorized", UnauthorizedError),
    (404, "Not Found", ProblemError),
    (429, "Too Many Requests", UnavailableError),
    (500, "Internal Server Error", ProblemError),
    (503, "Service Unavailable", UnavailableError),
    (504, "Gateway Timeout", ServiceTimedOutError),
    (599, "Status 599", ProblemError),
]
PROBLEM = {"Content-Type": "application/problem+json"}
NO_PROBLEM = [b"", b"[]", b"no JSON", b"{}", b'{"type": 1}', b"\xff", b"[" * 100_000]


def read(content: object = None, *, status: int = 503, **headers: str) -> ProblemError:
    """Reads a problem, without a socket."""
    body = b"" if content is None else json.dumps(content).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_problem(Answer(status, httpx.Headers(PROBLEM | names), body), request_id="sent")


@pytest.mark.parametrize("content", NO_PROBLEM, ids=range(len(NO_PROBLEM)))
@pytest.mark.parametrize(("status", "phrase", "kind"), KINDS)
def test_what_is_no_problem(
    status: int, phrase: str, kind: type[ProblemError], content: bytes
) -> None:
    headers = httpx.Headers(PROBLEM | {"Retry-After": "2"})
    error = read_problem(Answer(status, headers, content), request_id="sent")
    assert type(error) is kind
    detail = f"{phrase}: something before the service answered in its place"
    assert error.problem == Problem("about:blank", status, phrase, detail, retry_after=2)
    assert error.request_id == "sent"


def test_each_member_that_is_right_counts() -> None:
    found = read(
        {
            "type": "/problems/overloaded",
            "title": None,
            "detail": ["a list"],
            "status": 401,
            "errors": [{"loc": ["body", 1], "msg": "blank"}, {"loc": "body", "msg": "x"}, "x", {}],
            "retry_after": 1.5,
        },
        retry_after="9",
    )

    assert type(found) is UnavailableError  # by the status of the answer
    assert found.problem == Problem(
        "overloaded",
        503,
        "Service Unavailable",
        "Service Unavailable: something before the service answered in its place",
        errors=(FieldError(("body", 1), "blank"),),
        retry_after=1.5,
    )


@pytest.mark.parametrize(
    "wrong", ["3", None, True, -1, -0.5, float("nan"), float("inf"), [3], {"seconds": 3}]
)
def test_a_wrong_member_leaves_the_header(wrong: Any) -> None:  # noqa: ANN401
    assert read({"retry_after": wrong}, retry_after="7").retry_after == 7
    assert read({"retry_after": wrong}).retry_after is None


NOW = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [
        (" 120 ", 120),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30),
        ("Wed, 21 Oct 2026 07:28:30 -0000", 30),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0),
        *((wrong, None) for wrong in ("", "-3", "1.5", "1_0", "9" * 5000, "soon")),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_header_is_seconds_or_a_date(wanted: str, seconds: int | None) -> None:
    assert read(retry_after=wanted, date=NOW).retry_after == seconds


def test_a_date_without_a_clock_of_the_server_is_compared_with_ours() -> None:
    assert read(retry_after="Wed, 21 Oct 2015 07:28:00 GMT").retry_after == 0
    assert (read(retry_after="Fri, 31 Dec 9999 23:59:59 GMT").retry_after or 0) > 60


@given(wanted=st.text(), date=st.text())
def test_no_header_breaks_the_reading(wanted: str, date: str) -> None:
    answer = Answer(503, {"retry-after": wanted, "date": date}, b"")
    seconds = read_problem(answer, request_id="sent").retry_after
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, "422 a-word: It is so."),
        (500, "500 a-word: It is so. (request id-1)"),
        (503, "503 a-word: It is so. (request id-1)"),
    ],
)
def test_the_message_names_a_request_that_its_sender_cannot_mend(status: int, message: str) -> None:
    content = {"type": "a-word", "title": "T", "detail": "It is so."}
    error = read(content, status=status, x_request_id="id-1")
    assert str(error) == message
    assert error.request_id == "id-1"
