"""Which variables ask for traces, what is noted of a request, and what the log gets."""

import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tracing.environment import find_errors, is_wanted
from service.tracing.export import SparingHandler
from service.tracing.record import MOST_STAGES, Trace

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
URL = "http://collector:4318"


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: "  "}, False),
        ({ENDPOINT: URL}, True),
        ({TRACES: URL}, True),
        ({ENDPOINT: URL, "OTEL_SDK_DISABLED": " True "}, False),
        ({ENDPOINT: URL, "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_wanted_with_a_collector(variables: dict[str, str], *, wanted: bool) -> None:
    assert is_wanted(variables) is wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ENDPOINT, "https://user:key@collector/path"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP"),
        ("OTEL_TRACES_SAMPLER", "Always_Off"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "512"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2048"),
        ("OTEL_PROPAGATORS", "b3"),  # OpenTelemetry's own affair
    ],
)
def test_what_is_right(name: str, value: str) -> None:
    assert find_errors({ENDPOINT: URL, name: value}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ENDPOINT, "collector:4318"),
        (ENDPOINT, "http://collector:99999"),
        (ENDPOINT, "http://[::1"),
        (TRACES, "/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "nan"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1.5"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "511"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2049"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str) -> None:
    [error] = find_errors({ENDPOINT: URL, name: value})
    named = error.partition(":")[0]
    assert named == name or (named, name) == (
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
        "OTEL_BSP_MAX_QUEUE_SIZE",
    )
    assert "must" in error


def test_nothing_is_wrong_while_no_traces_are_wanted() -> None:
    assert find_errors({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) == []


@given(st.floats())
def test_a_share_is_a_number_from_0_to_1(share: float) -> None:
    variables = {
        ENDPOINT: URL,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": repr(share),
    }
    assert (find_errors(variables) == []) is (0 <= share <= 1)


@given(st.text())
def test_any_text_is_judged_and_a_url_is_not_shown(text: str) -> None:
    for error in find_errors({ENDPOINT: f"{text}: key@secret"}):
        assert "secret" not in error


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


def test_each_logger_has_one_line_a_minute_without_what_a_user_sent(
    said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What clients send does not hide a collector that is away."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    handler = SparingHandler()
    failed = ("opentelemetry.exporter.otlp.common.http", "Failed to export")
    invalid = ("opentelemetry.trace.span", "Invalid pair %s found", SECRET)
    for now, parts in (  # noqa: B007 - the clock
        *((1000.0, invalid), (1000.1, failed), (1000.2, invalid), (1059.9, invalid)),
        (1060.0, invalid),
    ):
        handler.handle(record(*parts))
    found = [("Invalid pair %s found", 0), ("Failed to export", 0), ("Invalid pair %s found", 2)]
    assert reasons(said) == found
    assert SECRET not in said.text
    assert {line.levelname for line in said.records} == {"WARNING"}


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


def test_a_pass_ends_the_wait_before_it() -> None:
    trace = Trace()
    trace.begin_waiting()
    first = trace.stages[0]
    for later in (7, 9):
        trace.begin_pass(first.began + later, {})
    assert (first.ended, trace.passes) == (first.began + 7, 2)
    trace.begin_waiting()
    again = trace.stages[-1]
    # A pass notes its beginning as a float, which may be rounded down.
    trace.begin_pass(again.began - 5, {})
    assert again.ended == again.began
    names = [each.name for each in trace.stages]
    assert names == ["wait", "forward", "forward", "wait", "forward"]


def test_more_passes_than_are_kept_are_counted() -> None:
    trace = Trace()
    threads = [
        threading.Thread(target=lambda: [trace.begin_pass(0, {}) for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(trace.stages), trace.passes) == (MOST_STAGES, 400)
