"""Spans of requests as a collector gets them, and what the variables of OpenTelemetry change."""

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from model import open_checkpoint
from tests.deploy.balancers import free_ports
from tests.documentation.markdown import GUIDES, codes, rows
from tests.end_to_end.collector import INTERNAL, SERVER, Collector, attributes, collecting
from tests.end_to_end.conftest import Start
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.servers import RunningService, local_service, service, wait_until
from tests.end_to_end.test_start import refuse

# As the specification of W3C has it.
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SENT = f"00-{TRACE}-{PARENT}-01"
PATIENCE = 60
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
STAGES = ["tokenize", "wait", "forward"]
_HEADER = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@pytest.fixture(scope="module")
def _collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def traced(
    _collector: Collector, checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("traced")
    settings = {ENDPOINT: _collector.url, **SOON}
    changes = patches(folder)
    with local_service(checkpoint_folder, folder, settings=settings, changes=changes) as running:
        yield running


@pytest.fixture
def collector(_collector: Collector) -> Collector:
    """Its collector, without what earlier tests sent: each waits for all of its own."""
    _collector.received.clear()
    return _collector


@pytest.fixture
def order(traced: RunningService) -> Iterator[Path]:
    """A file that says how its passes misbehave, until the test ends."""
    file = traced.log.parent / "pass"
    yield file
    file.unlink(missing_ok=True)


def assert_nested(parent: Span, children: list[Span]) -> None:
    """The children lie within their parent, one after the other."""
    times = [parent.start_time_unix_nano]
    for each in children:
        times += [each.start_time_unix_nano, each.end_time_unix_nano]
    times.append(parent.end_time_unix_nano)
    assert times == sorted(times)
    assert {each.trace_id for each in children} <= {parent.trace_id}
    assert {each.kind for each in children} <= {INTERNAL}


def names(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


def log_lines(running: RunningService) -> list[dict[str, object]]:
    return [json.loads(line) for line in running.log.read_text("utf-8").splitlines()]


def test_a_prediction_is_a_span_with_three_stages(
    traced: RunningService, collector: Collector, checkpoint_folder: Path
) -> None:
    with traced.client() as client:
        answer = client.post("/predict", json={"sentences": ["a good film", "bad"]})
    [span] = collector.wait_for(1)
    assert (span.name, span.kind) == ("POST /predict", SERVER)
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/predict",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": traced.port,
        "url.path": "/predict",
        "url.scheme": "http",
        "headlight.passes": 1,
    }
    children = collector.children(span)
    assert names(children) == STAGES
    assert_nested(span, children)
    tokenize, wait, forward = children
    assert attributes(tokenize.attributes) == {"headlight.texts": 2}
    assert attributes(wait.attributes) == {}
    assert wait.end_time_unix_nano == forward.start_time_unix_nano
    # [CLS] a good film [SEP], and [CLS] bad [SEP]
    assert attributes(forward.attributes) == {
        "headlight.path": "fused",
        "headlight.texts": 2,
        "headlight.batch.requests": 1,
        "headlight.batch.texts": 2,
        "headlight.batch.tokens": 8,
        "headlight.batch.padded_tokens": 10,
    }
    match = _HEADER.fullmatch(answer.headers["traceparent"])
    assert match is not None
    assert (match[1], match[2]) == (span.trace_id.hex(), span.span_id.hex())
    assert int(match[3], 16) & 1
    assert not span.parent_span_id

    assert collector.received[0].path == "/v1/traces"
    [resource] = collector.received[0].message.resource_spans
    said = attributes(resource.resource.attributes)
    assert said.pop("service.instance.id")
    assert said.pop("telemetry.sdk.version")
    assert said == {
        "service.name": "headlight",
        "service.version": "0.1.0",
        "headlight.model.name": checkpoint_folder.name,
        "headlight.model.version": open_checkpoint(checkpoint_folder).version,
        "headlight.device": "cpu",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
    }


def test_a_span_is_part_of_the_trace_of_its_caller_if_that_is_sampled(
    traced: RunningService, collector: Collector
) -> None:
    other = TRACE[::-1]
    with traced.client(traceparent=f"00-{other}-{PARENT}-00") as client:
        unsampled = client.post("/predict", json={"sentences": []})
        metrics = client.get("/metrics", headers={"accept": "application/openmetrics-text"}).text
    with traced.client(traceparent=SENT, tracestate="vendor=1") as client:
        answer = client.post("/predict", json={"sentences": ["good"]})
    [span] = collector.wait_for(1)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.trace_state == "vendor=1"
    assert answer.headers["traceparent"] == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert "tracestate" not in answer.headers
    # What is not sampled is not sent, but has its ids.
    assert unsampled.json()["trace_id"] == other
    match = _HEADER.fullmatch(unsampled.headers["traceparent"])
    assert match is not None
    assert (match[1], match[3]) == (other, "00")
    assert other not in metrics
    [line] = [line for line in log_lines(traced) if line.get("span_id") == match[2]]
    assert (line["trace_id"], line["status"]) == (other, 422)


def test_the_log_and_a_problem_name_the_trace(traced: RunningService, collector: Collector) -> None:
    with traced.client() as client:
        answer = client.post("/predict", json={"sentences": ["good", ""], "on_error": "item"})
        refused = client.post("/predict", json={"sentences": []})
        for path in ("/health/ready", "/health", "/v2/health/ready", "/metrics"):
            assert "traceparent" not in client.get(path).headers
        metrics = client.get("/metrics", headers={"accept": "application/openmetrics-text"}).text
    good, bad = collector.wait_for(2)
    assert f'{{trace_id="{bad.trace_id.hex()}"}}' in metrics
    assert refused.json()["trace_id"] == bad.trace_id.hex()
    assert "trace_id" not in answer.json()["predictions"][1]["error"]
    assert attributes(bad.attributes)["headlight.problem"] == "invalid-request"
    assert "error.type" not in attributes(bad.attributes)
    assert bad.status.code == Status.STATUS_CODE_UNSET
    lines = [line for line in log_lines(traced) if line["message"] == "request"]
    by_route = {(line["route"], line["status"]): line for line in lines}  # the latest
    assert by_route["/predict", 200]["trace_id"] == good.trace_id.hex()
    assert by_route["/predict", 422]["span_id"] == bad.span_id.hex()
    assert "trace_id" not in by_route["/health/ready", 200]


def test_unknown_paths_and_methods_are_not_named(
    traced: RunningService, collector: Collector
) -> None:
    with traced.client() as client:
        assert client.get("/secret/path?secret=1").status_code == 404
        assert client.request("PROPFIND", "/predict").status_code == 405
    first, second = collector.wait_for(2)
    assert (first.name, second.name) == ("GET", "HTTP /predict")
    assert attributes(first.attributes).keys().isdisjoint({"http.route", "url.path"})
    assert attributes(second.attributes)["http.request.method"] == "_OTHER"
    assert b"PROPFIND" not in b"".join(each.content for each in collector.received)


def test_the_guide_describes_every_attribute_and_stage(
    traced: RunningService, collector: Collector, order: Path
) -> None:
    def documented(header: str) -> set[str]:
        return {name for cells in rows(GUIDES / "operate.md", header) for name in codes(cells[0])}

    def said(spans: list[Span]) -> set[str]:
        return {name for span in spans for name in attributes(span.attributes)}

    with traced.client() as client:
        for path in ("/attention", "/attributions", "/importance"):
            assert client.post(path, json={"sentence": "good"}).status_code == 200
        order.write_text("fail", encoding="ascii")
        assert client.get("/attention?sentence=good").status_code == 500
    *_, failed = collector.wait_for(4)
    for path, stages, computed in (
        ("/attention", [*STAGES, "write"], "explicit"),
        ("/attributions", STAGES, "gradient"),
        ("/importance", STAGES, "gradient"),
    ):
        [span] = collector.requests(f"POST {path}")
        children = collector.children(span)
        assert names(children) == stages
        assert_nested(span, children)
        assert attributes(children[2].attributes)["headlight.path"] == computed
    assert attributes(failed.attributes)["error.type"] == "internal"
    children = [span for span in collector.spans if span.parent_span_id]
    passes = [span for span in children if span.name == "forward"]
    assert passes[-1].status.code == failed.status.code == Status.STATUS_CODE_ERROR
    assert not any(each.events for each in collector.spans)  # which would hold a message
    assert said(collector.requests()) == documented("attribute of a request")
    assert set(names(children)) == documented("child")
    assert said(passes) == documented("attribute of `forward`")
    [resource] = collector.received[0].message.resource_spans
    of_process = {name for name in attributes(resource.resource.attributes) if "sdk" not in name}
    assert of_process == documented("attribute of the process")


def test_a_deadline_shows_where_the_time_went(
    traced: RunningService, collector: Collector, order: Path
) -> None:
    order.write_text("hold", encoding="ascii")
    with traced.client(**{"x-request-timeout": "0.5"}) as client:
        assert client.get("/attention?sentence=good").status_code == 504
    order.unlink()
    [span] = collector.wait_for(1)
    assert attributes(span.attributes)["error.type"] == "timeout"
    children = collector.children(span)
    assert names(children) == STAGES
    assert_nested(span, children)
    assert attributes(children[2].attributes)["headlight.unfinished"] is True
    assert children[2].end_time_unix_nano == span.end_time_unix_nano


def test_each_request_of_a_shared_pass_has_its_own_spans(
    collector: Collector, start: Start, tmp_path: Path
) -> None:
    count = 6
    # One of its own: after passes that were held, a service takes itself for slow and refuses.
    settings = {ENDPOINT: collector.url, **SOON}
    with (
        start(settings=settings) as running,
        ThreadPoolExecutor(count + 1) as pool,
        running.client() as client,
    ):
        (tmp_path / "pass").write_text("hold", encoding="ascii")

        def ask() -> httpx.Response:
            return client.post("/predict", json={"sentences": ["good film"]})

        def waiting() -> float:
            return running.metric("headlight_queue_requests")

        # While this one is computed, the others wait for the same pass.
        answers = [pool.submit(ask)]
        wait_until(lambda: waiting() == 1)
        wait_until(lambda: running.metric("headlight_queue_tokens") == 0)
        answers += [pool.submit(ask) for _ in range(count)]
        wait_until(lambda: waiting() == count + 1)
        (tmp_path / "pass").unlink()
        assert {each.result().status_code for each in answers} == {200}
    spans = collector.wait_for(count + 1)
    shares = []
    for span in spans:
        children = collector.children(span)
        assert names(children) == STAGES
        assert_nested(span, children)
        said = attributes(children[2].attributes)
        assert said["headlight.texts"] == 1
        shared = int(str(said["headlight.batch.requests"]))
        assert said["headlight.batch.texts"] == shared
        assert said["headlight.batch.tokens"] == 4 * shared
        shares.append(shared)
    assert sorted(shares) == [1] + [count] * count


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


def warnings(running: RunningService) -> list[dict[str, object]]:
    return [line for line in log_lines(running) if line["logger"] == "headlight.tracing"]


def test_without_a_wish_for_traces_no_package_for_them_is_loaded(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    program = ("-c", REPORTING)
    settings = {ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "TRUE"}
    with service(checkpoint_folder, tmp_path, settings=settings, program=program) as running:
        with running.client(traceparent=SENT) as client:
            answer = client.post("/predict", json={"sentences": []})
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE) == 0
    assert "traceparent" not in answer.headers
    assert "trace_id" not in answer.json()
    log = running.log.read_text("utf-8")
    assert "trace_id" not in log
    loaded = log.splitlines()[-1].split()
    # FastAPI brings the interface, which does nothing.
    assert "opentelemetry.trace" in loaded
    for package in ("opentelemetry.sdk", "opentelemetry.exporter", "requests"):
        assert not any(name.startswith(package) for name in loaded)


def test_the_standard_variables_hold(start: Start, collector: Collector) -> None:
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
    preflight = {
        "origin": "https://example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "traceparent, tracestate",
    }
    options = ("--allowed-origins", "https://example.org")
    with start(*options, settings=settings) as running, running.client() as client:
        # Pages from elsewhere may send a trace.
        assert client.options("/predict", headers=preflight).status_code == 200
        ask(running)
        collector.wait_for(1, "POST /predict")
    first = collector.received[0]
    assert first.path == "/of/mine"
    assert first.headers["content-type"] == "application/x-protobuf"
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["x-tenant"] == "films"
    assert first.headers["authorization"] == "Bearer secret"
    said = attributes(first.message.resource_spans[0].resource.attributes)
    assert (said["service.name"], said["service.version"]) == ("reviews", "9")
    assert said["deployment.environment.name"] == "test"
    assert warnings(running) == []


def test_the_last_spans_are_sent_at_the_end(start: Start, collector: Collector) -> None:
    settings = {ENDPOINT: collector.url, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    with start(settings=settings) as running:
        ask(running, 3)
        assert collector.received == []
    assert len(collector.requests()) == 3
    assert warnings(running) == []


def test_a_collector_that_is_not_there_is_logged_once(start: Start) -> None:
    [port] = free_ports(1)
    settings = {
        ENDPOINT: f"http://user:secret@127.0.0.1:{port}/secret",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
        **SOON,
    }
    others = set(threading.enumerate())
    with start(settings=settings) as running:
        ask(running, 10)
        wait_until(lambda: warnings(running) != [])
        ask(running, 10)
    wait_until(
        lambda: not any("SpanRecord" in each.name for each in set(threading.enumerate()) - others)
    )
    first, *more = warnings(running)
    assert first["level"] == "warning"
    assert first["message"] == "traces could not be sent"
    assert str(first["reason"]).startswith(
        "Transient error Connection refused encountered while exporting spans batch"
    )
    # At the end, what is left cannot be sent either.
    assert {line["message"] for line in more} <= {"the last spans were not sent in time"}
    assert "secret" not in running.log.read_text("utf-8")


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
    assert [(line["message"], line.get("reason")) for line in warnings(running)] == [
        ("traces could not be sent", "Queue full, dropping %s."),
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
