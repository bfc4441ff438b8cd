"""What is counted, and how it is shown."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.types import ASGIApp, Receive, Scope, Send

from model import Encoding
from service.errors import (
    DeadlineError,
    InvalidRequestError,
    NotReadyError,
    OverloadedError,
    RateLimitedError,
    Refusal,
)
from service.metrics import EXPLICIT, FUSED, OPEN_METRICS, PROMETHEUS_TEXT, Metrics
from service.tracing.record import TRACE_ID_KEY
from tests.service.http.test_middleware import application

TRACE = "0af7651916cd43dd8448eb211c80319c"


def value(metrics: Metrics, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    return metrics.registry.get_sample_value(name, dict(labels or {}))


def texts(*lengths: int) -> list[Encoding]:
    return [Encoding([1] * length, truncated=False) for length in lengths]


def exemplars(metrics: Metrics) -> list[tuple[str, dict[str, str], float]]:
    """The route, labels and value of each exemplar."""
    shown = metrics.render(OPEN_METRICS).decode()
    return [
        (sample.labels["route"], dict(sample.exemplar.labels), sample.exemplar.value)
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
        if sample.exemplar is not None
    ]


def test_a_pass_is_counted_by_what_it_holds() -> None:
    metrics = Metrics([])
    metrics.observe_pass(texts(2, 5, 3), 0.1, FUSED, max_tokens=20, computes_padding=False)
    assert value(metrics, "headlight_tokens_total") == 10
    assert value(metrics, "headlight_batch_tokens_sum") == 15
    assert value(metrics, "headlight_batch_fill_ratio_sum") == 0.75
    assert value(metrics, "headlight_padding_tokens_total") == 0
    metrics.observe_pass(texts(2, 5, 3), 0.1, EXPLICIT, max_tokens=20, computes_padding=True)
    assert value(metrics, "headlight_padding_tokens_total") == 5
    assert value(metrics, "headlight_batch_fill_ratio_count") == 2
    assert value(metrics, "headlight_batch_fill_ratio_bucket", {"le": "0.75"}) == 2
    assert value(metrics, "headlight_batch_fill_ratio_bucket", {"le": "0.5"}) == 0


def test_a_refusal_is_counted_by_its_reason_and_a_fault_of_the_request_is_none() -> None:
    metrics = Metrics([])
    for reason in Refusal:  # there from the start
        assert value(metrics, "headlight_refused_requests_total", {"reason": reason.value}) == 0
    for error in (
        OverloadedError("full", refusal=Refusal.QUEUE_FULL),
        OverloadedError("full", refusal=Refusal.MEMORY),
        RateLimitedError("much", refusal=Refusal.QUOTA),
        NotReadyError("loading"),
        NotReadyError("a probe asks", refusal=None),
        InvalidRequestError("wrong"),
        DeadlineError("late"),
    ):
        metrics.count_problem(error)
    counted = {
        reason.value
        for reason in Refusal
        if value(metrics, "headlight_refused_requests_total", {"reason": reason.value}) == 1
    }
    assert counted == {"queue_full", "memory", "quota", "not_ready"}
    assert value(metrics, "headlight_problems_total", {"type": "overloaded"}) == 2
    assert value(metrics, "headlight_problems_total", {"type": "not-ready"}) == 2
    assert value(metrics, "headlight_problems_total", {"type": "timeout"}) == 1


def test_only_a_request_with_a_trace_leaves_an_exemplar() -> None:
    metrics = Metrics([("/predict", "POST", [200])])
    metrics.observe_request("/predict", 0.3, None)
    assert exemplars(metrics) == []
    metrics.observe_request("/predict", 0.4, TRACE)
    assert exemplars(metrics) == [("/predict", {"trace_id": TRACE}, 0.4)]
    assert TRACE not in metrics.render(PROMETHEUS_TEXT).decode()


@pytest.mark.parametrize("trace", [None, TRACE])
async def test_the_trace_of_a_request_is_read_from_its_scope(
    checkpoint_folder: Path, trace: str | None
) -> None:
    app = application(checkpoint_folder)
    metrics: Metrics = app.state.headlight.metrics

    transport = httpx.ASGITransport(traced(app, trace))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.post("/predict", json={"sentences": ["a"]})).status_code == 503
    expected = (
        []
        if trace is None
        else [(route, trace) for route in ("/predict", "/health/live", "/health/ready")]
    )
    assert [(route, labels["trace_id"]) for route, labels, _ in exemplars(metrics)] == expected
    # The model never loads here. Probes are answered, the request is refused.
    assert value(metrics, "headlight_problems_total", {"type": "not-ready"}) == 2
    refused = {"reason": "not_ready"}
    assert value(metrics, "headlight_refused_requests_total", refused) == 1


def traced(app: ASGIApp, trace: str | None) -> ASGIApp:
    """Notes the trace of every request, as tracing does."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if trace is not None:
            scope[TRACE_ID_KEY] = trace
        await app(scope, receive, send)

    return call
