"""Log lines, for machines and for people."""

import asyncio
import io
import json
import logging
import os
import time
from collections.abc import Iterator

import pytest

from service.logs import JsonFormatter, TextFormatter, configure_logging, log_request

SECRET = "what the user wrote"


def record(**extra: object) -> logging.LogRecord:
    """A record with the trace of an error whose message must not show."""
    logger = logging.getLogger("headlight.test")
    try:
        dict[str, str]()[SECRET]
    except KeyError as error:
        made = logger.makeRecord(
            *(logger.name, logging.ERROR, __file__, 1, "it failed %d times", (3,)),
            (type(error), error, error.__traceback__),
            extra=extra,
        )
    made.created = 1_700_000_000.25
    return made


def test_json() -> None:
    line = JsonFormatter().format(record(request_id="abc"))
    assert SECRET not in line
    content = json.loads(line)
    (frame,) = content.pop("trace")
    assert frame.startswith(f"{__file__}:")
    assert frame.endswith(" record")
    assert content == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "error",
        "logger": "headlight.test",
        "message": "it failed 3 times",
        "request_id": "abc",
        "exception": "KeyError",
    }


def test_text() -> None:
    line = TextFormatter().format(record(request_id="abc"))
    assert SECRET not in line
    assert line.startswith(
        "2023-11-14T22:13:20.250+00:00 error   headlight.test: it failed 3 times request_id=abc "
        "exception=KeyError trace=["
    )


@pytest.mark.parametrize(
    ("log_format", "on_terminal", "as_json"),
    [("auto", False, True), ("auto", True, False), ("json", True, True), ("text", False, False)],
)
def test_the_form_follows_setting_and_stream(
    log_format: str, *, on_terminal: bool, as_json: bool
) -> None:
    reading, writing = os.openpty() if on_terminal else os.pipe()
    root = logging.getLogger()
    before = root.handlers, root.level
    with os.fdopen(reading) as lines, os.fdopen(writing, "w") as stream:
        try:
            configure_logging(log_format, stream)
            logging.getLogger("uvicorn.error").info("hello")
        finally:
            root.handlers, level = before
            root.setLevel(level)
        line = lines.readline()
    assert line.startswith("{") == as_json
    assert "hello" in line


class Writes(io.StringIO):
    """A stream that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return len(text)


@pytest.fixture
def stream() -> Iterator[Writes]:
    """Where all logs go, as text."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    stream = Writes()
    configure_logging("text", stream)
    yield stream
    root.handlers = before
    root.setLevel(level)


def messages(piece: str) -> list[str]:
    assert piece.endswith("\n")
    return [line.partition(": ")[2] for line in piece.splitlines()]


def test_lines_of_one_round_of_the_event_loop_are_one_write(stream: Writes) -> None:
    async def answer_many() -> None:
        for number in range(3):
            log_request(route="/predict", status=200 + number)
        assert stream.pieces == []
        await asyncio.sleep(0)
        log_request(route="/model", status=200)
        await asyncio.sleep(0)

    asyncio.run(answer_many())
    assert [messages(piece) for piece in stream.pieces] == [
        [f"request route=/predict status={status}" for status in (200, 201, 202)],
        ["request route=/model status=200"],
    ]


def test_a_warning_is_written_at_once_behind_what_came_before(stream: Writes) -> None:
    async def warn() -> None:
        log_request(status=200)
        logging.getLogger("headlight.test").warning("careful")
        assert [messages(piece) for piece in stream.pieces] == [["request status=200", "careful"]]

    asyncio.run(warn())
    assert len(stream.pieces) == 1


def test_lines_of_other_threads_are_written_at_once(stream: Writes) -> None:
    log_request(status=200)
    assert [messages(piece) for piece in stream.pieces] == [["request status=200"]]


def test_the_line_of_a_request_is_that_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.25)
    fields = {"request_id": "abc", "route": "/predict", "status": 200, "milliseconds": 1.5}
    root = logging.getLogger()
    before, level = root.handlers, root.level
    short, whole = Writes(), Writes()
    try:
        configure_logging("json", short)
        log_request(**fields)
        configure_logging("json", whole)
        # With a second handler there is no short way.
        root.addHandler(logging.NullHandler())
        log_request(**fields)
    finally:
        root.handlers = before
        root.setLevel(level)
    assert short.pieces == whole.pieces
    assert json.loads(short.pieces[0]) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "info",
        "logger": "headlight.request",
        "message": "request",
        **fields,
    }
