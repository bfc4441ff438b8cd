"""Log lines, for machines and for people."""

import json
import logging
import os

import pytest

from service.logs import JsonFormatter, TextFormatter, configure_logging

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
