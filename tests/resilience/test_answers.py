"""What the fuzzer calls a fault, and how many answers it knows to be due."""

import pytest

from tests.resilience.answers import judge
from tests.resilience.garble import Request, draw_request

OK = b"HTTP/1.1 200 OK\r\nx-request-id: 1\r\ncontent-length: 2\r\n\r\n{}"
LAST = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
WHOLE = Request(b"GET / HTTP/1.1\r\n\r\n")
UNFINISHED = Request(b"GET / HT", answers=0, goes_on=True)
PIPELINE = Request(3 * WHOLE.content, answers=3)


@pytest.mark.parametrize(
    ("received", "request_", "statuses"),
    [
        (OK, WHOLE, ["200"]),
        (CONTINUE + OK, WHOLE, ["200"]),
        (b"", UNFINISHED, []),
        (LAST, UNFINISHED, ["200"]),
        (3 * OK, PIPELINE, ["200"] * 3),
        # It says that it reads nothing behind the second.
        (OK + LAST, PIPELINE, ["200"] * 2),
    ],
)
def test_answers_that_are_due_are_right(
    received: bytes, request_: Request, statuses: list[str]
) -> None:
    assert judge(received, request_) == statuses


@pytest.mark.parametrize(
    ("received", "request_", "message"),
    [
        (b"", WHOLE, "0 answers where 1 are due"),
        (CONTINUE, WHOLE, "0 answers where 1 are due"),
        (2 * OK, PIPELINE, "2 answers where 3 are due"),
        (2 * OK, WHOLE, "2 answers where only 1 are due"),
        (OK + b"what", WHOLE, "no head: b'what'"),
        (OK.replace(b"200", b"500"), WHOLE, "status 500: b'{}'"),
    ],
)
def test_silence_and_what_was_not_asked_are_faults(
    received: bytes, request_: Request, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        judge(received, request_)


def test_most_requests_are_whole_and_many_come_together() -> None:
    due = [draw_request(seed).answers for seed in range(1000)]

    assert 0.01 < due.count(0) / len(due) < 0.1
    assert set(due) == {0, 1, 2, 3, 4, 5}
