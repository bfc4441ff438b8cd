"""Log lines, for machines and for people."""

import asyncio
import errno
import json
import logging
import os
import time
from collections.abc import Iterator

import pytest

from service.logs import (
    _MOST_WAITING,
    LineFormatter,
    LineHandler,
    LogThrottle,
    Writer,
    configure_logging,
    json_line,
    log_request,
    text_line,
)

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
    line = LineFormatter(json_line).format(record(request_id="abc"))
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
    line = LineFormatter(text_line).format(record(request_id="abc"))
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
    root: logging.Logger, log_format: str, *, on_terminal: bool, as_json: bool
) -> None:
    reading, writing = os.openpty() if on_terminal else os.pipe()
    with os.fdopen(reading) as lines, os.fdopen(writing, "w") as stream:
        configure_logging(log_format, stream)
        logging.getLogger("uvicorn.error").info("hello")
        line = lines.readline()
        root.handlers[0].close()
    assert line.startswith("{") == as_json
    assert "hello" in line


class Pieces(Writer):
    """Keeps what would be written."""

    def __init__(self) -> None:
        self.lost = 0
        self.pieces: list[list[str]] = []

    def put(self, lines: list[str]) -> None:
        self.pieces.append(lines)

    def close(self) -> None:
        """Does nothing."""


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, which gets its handlers back."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield root
    root.handlers = before
    root.setLevel(level)


@pytest.fixture
def written(root: logging.Logger) -> list[list[str]]:
    """What is written together, as text."""
    writer = Pieces()
    root.handlers = [LineHandler(writer, LineFormatter(text_line))]
    root.setLevel(logging.INFO)
    return writer.pieces


def messages(lines: list[str]) -> list[str]:
    return [line.partition(": ")[2] for line in lines]


async def test_lines_of_one_round_of_the_event_loop_are_written_together(
    written: list[list[str]],
) -> None:
    for number in range(3):
        log_request(route="/predict", status=200 + number)
    assert written == []
    await asyncio.sleep(0)
    log_request(route="/model", status=200)
    await asyncio.sleep(0)
    assert [messages(lines) for lines in written] == [
        [f"request route=/predict status={status}" for status in (200, 201, 202)],
        ["request route=/model status=200"],
    ]


async def test_a_warning_is_written_at_once_behind_what_came_before(
    written: list[list[str]],
) -> None:
    log_request(status=200)
    logging.getLogger("headlight.test").warning("careful")
    assert [messages(lines) for lines in written] == [["request status=200", "careful"]]
    assert len(written) == 1


def test_the_line_of_a_request_is_that_of_a_record(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.25)
    fields = {"request_id": "abc", "route": "/predict", "status": 200, "milliseconds": 1.5}
    writer = Pieces()
    root.handlers = [LineHandler(writer, LineFormatter(json_line))]
    root.setLevel(logging.INFO)
    log_request(**fields)
    # With a second handler there is no short way.
    root.addHandler(logging.NullHandler())
    log_request(**fields)
    [short], [whole] = writer.pieces
    assert short == whole
    assert json.loads(short) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "info",
        "logger": "headlight.request",
        "message": "request",
        **fields,
    }


def test_a_line_that_clients_cause_is_logged_once_a_minute() -> None:
    lines = LogThrottle()
    assert [lines.others(now) for now in (0.0, 1.0, 59.9, 60.0, 61.0, 180.0)] == [
        *(0, None, None),
        *(2, None, 1),
    ]


def test_a_reader_that_never_reads_delays_nobody_and_loses_no_more_than_it_must() -> None:
    reading, writing = os.pipe()
    writer = Writer(writing)
    large = "x" * 200_000  # more than a pipe holds
    for _ in range(_MOST_WAITING + 10):
        writer.put([large])
    assert 0 < writer.lost <= 10
    lost = writer.lost
    writer.put(["one", "two"])
    assert writer.lost == lost + 2
    started = time.monotonic()
    writer.close()
    assert time.monotonic() - started < 60
    os.close(reading)
    writer.close()  # now the thread ends
    os.close(writing)


def test_a_line_that_was_torn_does_not_spoil_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    room = [3, -1, 100]

    def write(_: int, data: bytes) -> int:
        size = room.pop(0)
        if size < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(data[:size])
        return min(size, len(data))

    monkeypatch.setattr(os, "write", write)
    writer = Writer(1)
    writer.put(["first"])
    writer.put(["second", "half \ud800"])
    writer.close()
    assert b"".join(written) == b"fir\nsecond\nhalf \\ud800\n"
    assert writer.lost == 1
