"""Errors with and without a problem, whole and damaged; they show neither keys nor sentences."""

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight_client import (
    FieldError,
    HeadlightError,
    InvalidRequestError,
    Problem,
    ProblemError,
    ServiceTimedOutError,
    UnauthorizedError,
    UnavailableError,
    calls,
)
from headlight_client.answers import Answer
from headlight_client.config import ClientConfig
from headlight_client.errors import read_problem
from headlight_client.exchange import exchange, run
from tests.client.conftest import Ask
from tests.client.played import Clock, Played
from tests.client.scripted import Reply, predicted, problem, scripted

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


KEY, SENTENCE = "a-secret-key", "a private sentence"


def test_what_a_call_goes_through() -> None:
    config = ClientConfig("http://there", api_key=KEY, timeout=1.0, retries=0)
    call = calls.predict([SENTENCE], truncation="right", on_error="request")
    played = Played(Clock(), lambda _: Answer(200, {}, predicted("good").content))
    run(exchange(call, config, played))
    (request,) = played.sends
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert SENTENCE.encode() in request.content
    answer = Answer(200, {}, SENTENCE.encode())
    for value in (config, config.headers, call, request, request.headers, answer):
        assert KEY not in repr(value)
        assert SENTENCE not in repr(value)


def frames(error: BaseException | None) -> Iterator[tuple[str, str, str]]:
    """Of an error and its causes: file, name and `repr` of each variable of the package."""
    while error is not None:
        traceback: TracebackType | None = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if "headlight_client" in frame.f_code.co_filename:
                for name, value in frame.f_locals.items():
                    yield frame.f_code.co_filename, name, repr(value)
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "reply",
    [Reply(0), Reply(200, SENTENCE.encode()), predicted("a", "b"), problem(503, "overloaded")],
    ids=["broken", "unreadable", "too many", "refused"],
)
def test_the_variables_of_a_failure(ask: Ask, reply: Reply) -> None:
    with scripted([reply]) as server, pytest.raises(HeadlightError) as caught:
        ask(server.url, "predict", [SENTENCE], options={"api_key": KEY, "retries": 0})
    recorded = list(frames(caught.value))
    assert {name for _, name, _ in recorded} >= {"call", "config", "request"}
    # What the caller passed is the caller's own.
    shown = [each for each in recorded if each[1] not in ("sentences", "self")]
    assert not [each for each in shown if KEY in each[2] or SENTENCE in each[2]]
