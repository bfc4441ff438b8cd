"""Counts what a replica does, as Prometheus metrics that all exist from the start."""

from collections.abc import Iterable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector

from model import Encoding, ModelInfo, Prediction
from model.predictor import PathName
from service.drift import AnswerCounts
from service.errors import ALL_ERRORS, Refusal, ServiceError

PROMETHEUS_TEXT, OPEN_METRICS = "text/plain", "application/openmetrics-text"
CONTENT_TYPES = {
    PROMETHEUS_TEXT: f"{PROMETHEUS_TEXT}; version=0.0.4; charset=utf-8",
    OPEN_METRICS: f"{OPEN_METRICS}; version=1.0.0; charset=utf-8",
}
UNMATCHED = "unmatched"
FUSED: PathName = "fused"
EXPLICIT: PathName = "explicit"
GRADIENT: PathName = "gradient"

# Statuses of requests that reach no route: preflights of pages from elsewhere (200, 400), no such
# path, another host, a wrong header, and the end of the process.
_UNROUTED = ("200", "400", "404", "421", "422", "503")

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
_RATIOS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class Metrics:
    """Everything that one replica counts.

    Args:
        routes: path, method and possible statuses of every route; their series exist before the
            first request.
    """

    def __init__(self, routes: Iterable[tuple[str, str, Iterable[int]]]) -> None:
        disable_created_metrics()  # else a second series would say when each began
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "headlight_requests",
            "Requests answered, by route, method and status (499: the client left).",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "headlight_request_duration_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_progress = self._gauge("requests_in_progress", "Requests being answered.")
        self.problems = Counter(
            "headlight_problems",
            "Problems answered, by type; items of a batch included.",
            ["type"],
            registry=self.registry,
        )
        self.refused = Counter(
            "headlight_refused_requests",
            "Requests refused that another replica, or a later time, may answer; by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.queue_tokens = self._gauge("queue_tokens", "Tokens that wait for a forward pass.")
        self.queue_requests = self._gauge("queue_requests", "Requests that wait for an answer.")
        self.queue_oldest_seconds = self._gauge(
            "queue_oldest_seconds", "Age of the oldest request that waits for an answer."
        )
        self.backlog_seconds = self._gauge(
            "backlog_seconds", "Seconds that the admitted work takes, by the rate measured lately."
        )
        self.texts = self._counter("texts", "Texts that went through the network.")
        self.tokens = self._counter("tokens", "Tokens that went through the network, no padding.")
        self.padding_tokens = self._counter(
            "padding_tokens", "Positions of padding that went through the network."
        )
        self.truncated = self._counter("truncated_texts", "Texts of which a part was cut off.")
        self.batch_texts = Histogram(
            "headlight_batch_texts",
            "Texts in one forward pass.",
            buckets=_TEXTS,
            registry=self.registry,
        )
        self.batch_tokens = Histogram(
            "headlight_batch_tokens",
            "Tokens in one forward pass, padding counted.",
            buckets=_TOKENS,
            registry=self.registry,
        )
        self.batch_fill = Histogram(
            "headlight_batch_fill_ratio",
            "Tokens in one forward pass, padding counted, for each token that it may hold.",
            buckets=_RATIOS,
            registry=self.registry,
        )
        self.forward_seconds = Histogram(
            "headlight_forward_seconds",
            "Time of one forward pass, by path through the network.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.connections = self._gauge("connections", "Open connections.")
        self.connections_refused = self._counter(
            "connections_refused", "Requests refused because all connections were taken."
        )
        self.connections_closed = self._counter(
            "connections_closed", "Connections closed to make room for others."
        )
        self.sending_bytes = self._gauge(
            "sending_bytes", "Bytes of large answers that are being made or wait to be sent."
        )
        self.sending_refused = self._counter(
            "sending_refused", "Answers refused because too many bytes waited to be sent."
        )
        self.memory_refused = self._counter(
            "memory_refused", "Requests refused because the memory was nearly full."
        )
        self.memory_used = self._gauge(
            "memory_used_ratio", "Memory in use for each byte of its limit; 0 without a limit."
        )
        self.forward_failures = self._counter("forward_failures", "Forward passes that failed.")
        self.ready = self._gauge("ready", "1 if this replica is ready, else 0.")
        self.model = Gauge(
            "headlight_model_info",
            "The model: 1 once it is loaded, else 0.",
            ["name", "version", "device", "dtype"],
            registry=self.registry,
        )
        self._answers: AnswerCounts | None = None
        ProcessCollector(namespace="headlight", registry=self.registry)
        self._start_series(routes)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"headlight_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"headlight_{name}", text, registry=self.registry)

    def _start_series(self, routes: Iterable[tuple[str, str, Iterable[int]]]) -> None:
        for route, method, statuses in routes:
            for status in statuses:
                self.requests.labels(route, method, str(status))
            self.requests.labels(route, UNMATCHED, "405")
            self.seconds.labels(route)
        for unrouted in _UNROUTED:
            self.requests.labels(UNMATCHED, UNMATCHED, unrouted)
        self.seconds.labels(UNMATCHED)
        self._problems_of = {error.type: self.problems.labels(error.type) for error in ALL_ERRORS}
        self._refused_for = {reason: self.refused.labels(reason.value) for reason in Refusal}
        for path in (FUSED, EXPLICIT, GRADIENT):
            self.forward_seconds.labels(path)

    def expect_model(self, name: str, version: str, device: str, dtype: str) -> None:
        """Names the model in `headlight_model_info` before it is loaded."""
        self.model.labels(name, version, device, dtype)

    def expect_answers(self, answers: AnswerCounts) -> None:
        """Adds the series of the answers of the model, which begin at 0."""
        self._answers = answers
        self.registry.register(answers)

    def observe_answers(self, answered: Sequence[tuple[Sequence[Encoding], Prediction]]) -> None:
        """Counts the answers of one request, once a model is expected; see `AnswerCounts`."""
        if self._answers is not None:
            self._answers.observe(answered)

    def describe_model(self, info: ModelInfo) -> None:
        """Marks the model as loaded."""
        self.model.labels(info.name, info.version, info.device, info.dtype).set(1)

    def count_problem(self, error: ServiceError) -> None:
        """Counts an error that is answered."""
        self._problems_of[error.type].inc()
        if error.refusal is not None:
            self._refused_for[error.refusal].inc()

    def observe_pass(
        self,
        encodings: list[Encoding],
        seconds: float,
        path: PathName,
        *,
        max_tokens: int,
        computes_padding: bool,
    ) -> None:
        """Counts a forward pass that succeeded.

        Args:
            encodings: what went through the network, at least one text.
            seconds: that it took.
            path: its way through the network.
            max_tokens: that it may hold, padding counted.
            computes_padding: whether padding went through the network too.
        """
        lengths = [len(encoding.input_ids) for encoding in encodings]
        tokens, padded = sum(lengths), max(lengths) * len(lengths)
        self.forward_seconds.labels(path).observe(seconds)
        self.batch_texts.observe(len(lengths))
        self.batch_tokens.observe(padded)
        self.batch_fill.observe(padded / max_tokens)
        self.texts.inc(len(lengths))
        self.tokens.inc(tokens)
        if computes_padding:
            self.padding_tokens.inc(padded - tokens)
        self.truncated.inc(sum(encoding.truncated for encoding in encodings))

    def observe_request(self, route: str, seconds: float, trace_id: str | None) -> None:
        """Notes how long a request took.

        Args:
            route: its path, as it was declared.
            seconds: from its head to the end of its answer.
            trace_id: of its trace, 32 hex digits; OpenMetrics shows the last one of a bucket.
        """
        exemplar = None if trace_id is None else {"trace_id": trace_id}
        self.seconds.labels(route).observe(seconds, exemplar)

    def render(self, media_type: str) -> bytes:
        """Returns all metrics as text.

        Args:
            media_type: one of `CONTENT_TYPES`. Only OpenMetrics can show exemplars.
        """
        generate = generate_openmetrics if media_type == OPEN_METRICS else generate_latest
        return generate(self.registry)
