"""Which variables ask for traces, and which values are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tracing.environment import find_errors, is_wanted

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
