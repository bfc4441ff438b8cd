"""What the variables of OpenTelemetry change, and what the service does if no collector answers."""

import json
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.end_to_end.collector import attributes, collecting
from tests.end_to_end.conftest import Start
from tests.end_to_end.servers import RunningService, service, wait_until
from tests.end_to_end.test_start import refuse

PATIENCE = 60
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
# Runs the service, and then prints which modules it has loaded.
REPORTING = """
import logging
import sys
from service.__main__ import main
code = main(sys.argv[1:])
logging.shutdown()
print(*sorted(name for name in sys.modules if name.startswith(("opentelemetry", "requests"))))
sys.exit(code)
"""


def ask(running: RunningService, times: int = 1) -> None:
    with running.client() as client:
        for _ in range(times):
            assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200


def disturbances(running: RunningService) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in running.log.read_text("utf-8").splitlines()]
    return [line for line in lines if line["logger"] == "headlight.tracing"]


def test_without_a_wish_for_traces_no_package_for_them_is_loaded(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    program = ("-c", REPORTING)
    with collecting() as collector:
        settings = {ENDPOINT: collector.url, "OTEL_SDK_DISABLED": "TRUE"}
        with service(checkpoint_folder, tmp_path, settings=settings, program=program) as running:
            with running.client(traceparent=f"00-{'1' * 32}-{'2' * 16}-01") as client:
                answer = client.post("/predict", json={"sentences": []})
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(PATIENCE) == 0
        assert collector.asked == 0
    assert "traceparent" not in answer.headers
    assert "trace_id" not in answer.json()
    log = running.log.read_text("utf-8")
    assert "trace_id" not in log
    loaded = log.splitlines()[-1].split()
    # FastAPI brings the interface, which does nothing.
    assert "opentelemetry.trace" in loaded
    for package in ("opentelemetry.sdk", "opentelemetry.exporter", "requests"):
        assert not any(name.startswith(package) for name in loaded)


def test_the_standard_variables_hold(start: Start) -> None:
    with collecting() as collector:
        settings = {
            ENDPOINT: "http://127.0.0.1:1",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/of/mine",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=films,authorization=Bearer%20secret",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "reviews",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.version=9",
            "OTEL_TRACES_SAMPLER": "",
            **SOON,
        }
        with start(settings=settings) as running:
            ask(running)
            collector.wait_for(1)
    first = collector.received[0]
    assert first.path == "/of/mine"
    assert first.headers["content-type"] == "application/x-protobuf"
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["x-tenant"] == "films"
    assert first.headers["authorization"] == "Bearer secret"
    said = attributes(first.message.resource_spans[0].resource.attributes)
    assert said["service.name"] == "reviews"
    assert said["service.version"] == "9"
    assert said["deployment.environment.name"] == "test"
    assert disturbances(running) == []


def test_what_is_not_sampled_is_not_sent(start: Start) -> None:
    with collecting() as collector:
        settings = {
            ENDPOINT: collector.url,
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0",
        }
        with start(settings=settings) as running:
            ask(running, 5)
        assert collector.asked == 0
    assert running.log.read_text("utf-8").count('"trace_id"') == 5


def test_pages_from_elsewhere_may_send_and_read_a_trace(start: Start) -> None:
    origin = {"origin": "https://example.org"}
    preflight = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "traceparent, tracestate",
    }
    options = ("--allowed-origins", "https://example.org")
    with collecting() as collector:
        settings = {ENDPOINT: collector.url}
        with start(*options, settings=settings) as running, running.client(**origin) as client:
            asked = client.options("/predict", headers=preflight)
            answer = client.post("/predict", json={"sentences": ["good"]})
    assert asked.status_code == 200
    assert "traceparent" in answer.headers["access-control-expose-headers"].lower().split(", ")
    assert "traceparent" in answer.headers


def test_the_last_spans_are_sent_at_the_end(start: Start) -> None:
    with collecting() as collector:
        settings = {ENDPOINT: collector.url, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        with start(settings=settings) as running:
            ask(running, 3)
            assert collector.asked == 0
        assert len(collector.requests()) == 3
    assert disturbances(running) == []


def test_a_collector_that_is_not_there_is_logged_once(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = {ENDPOINT: f"http://user:secret@127.0.0.1:{port}/secret", **SOON}
    with service(checkpoint_folder, tmp_path, settings=settings) as running:
        ask(running, 10)
        wait_until(lambda: disturbances(running) != [])
        ask(running, 10)
    first, *more = disturbances(running)
    assert first["level"] == "warning"
    assert first["message"] == "traces are disturbed"
    assert str(first["reason"]).startswith(
        "Transient error Connection refused encountered while exporting spans batch"
    )
    # At the end, what is left cannot be sent either.
    assert {line["message"] for line in more} <= {"the last spans were not sent in time"}
    log = running.log.read_text("utf-8")
    assert all(line.startswith("{") for line in log.splitlines())
    assert "secret" not in log
    assert "Traceback" not in log


def test_a_collector_that_hangs_holds_up_nobody(start: Start) -> None:
    with collecting() as collector:
        collector.open.clear()
        settings = {
            ENDPOINT: collector.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
            "OTEL_BSP_MAX_QUEUE_SIZE": "8",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
        }
        with start(settings=settings) as running:
            ask(running, 50)
            assert collector.asked == 1
    assert [(line["message"], line.get("reason")) for line in disturbances(running)] == [
        ("traces are disturbed", "Queue full, dropping %s."),
        ("the last spans were not sent in time", None),
    ]


@pytest.mark.parametrize("package", ["opentelemetry.sdk", "opentelemetry.exporter"])
def test_traces_without_the_extra(
    package: str, checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith((package, "service.tracing.export")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    stderr = refuse(checkpoint_folder, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    first, second = stderr.splitlines()
    assert first == "headlight-serve: 1 setting is wrong:"
    assert second.startswith(f"  {ENDPOINT}: {package}")
    assert "pip install 'headlight[otel]'" in second
