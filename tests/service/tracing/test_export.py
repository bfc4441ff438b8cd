"""What the log gets of what the packages of OpenTelemetry say."""

import logging
import time

import pytest

from service.tracing.export import SparingHandler

SECRET = "what the user wrote"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The lines of the project's own logger."""
    caplog.set_level(logging.INFO, "headlight.tracing")
    return caplog


def record(name: str, message: str, *parts: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, message, parts, None)


def reasons(said: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(vars(line)["reason"], vars(line)["left_out"]) for line in said.records]


def test_one_line_a_minute(said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    handler = SparingHandler()
    for now in (1000.0, 1000.1, 1059.9, 1060.0, 1119.0, 1121.0):  # noqa: B007 - the clock
        handler.handle(record("opentelemetry.sdk", "Queue full"))
    assert reasons(said) == [("Queue full", 0), ("Queue full", 2), ("Queue full", 1)]
    assert {line.levelname for line in said.records} == {"WARNING"}


def test_what_clients_send_does_not_hide_a_collector_that_is_away(
    said: pytest.LogCaptureFixture,
) -> None:
    handler = SparingHandler()
    for name, message in (
        ("opentelemetry.trace.span", "Invalid pair found"),
        ("opentelemetry.exporter.otlp.common.http", "Failed to export"),
        ("opentelemetry.trace.span", "Invalid pair found"),
    ):
        handler.handle(record(name, message))
    assert reasons(said) == [("Invalid pair found", 0), ("Failed to export", 0)]


def test_a_part_that_a_user_may_have_sent_is_left_out(said: pytest.LogCaptureFixture) -> None:
    SparingHandler().handle(record("opentelemetry.trace.span", "Invalid pair %s found", SECRET))
    assert reasons(said) == [("Invalid pair %s found", 0)]
    assert SECRET not in said.text


def test_an_error_is_logged_by_its_first_cause(said: pytest.LogCaptureFixture) -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    error = ValueError(f"http://collector/{SECRET}")
    error.__cause__ = RuntimeError(SECRET)
    error.__cause__.__context__ = refused
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    SparingHandler().handle(record(name, "Failed with %s after %.1f s", error, 1.25))
    SparingHandler().handle(record(name, "Failed with %s", KeyError(SECRET)))
    SparingHandler().handle(record(name, "Failed with %d", "no number"))
    assert [reason for reason, _ in reasons(said)] == [
        "Failed with Connection refused after 1.2 s",
        "Failed with KeyError",
        "Failed with %d",
    ]
