"""Counts what a replica does, and what its answers look like, as Prometheus metrics."""

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from model import Checkpoint, Encoding, Prediction
from model.checkpoint.records import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline
from model.predictor import PathName
from model.tokenization.tokenizer import count_unknown
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

# The one whose durations every board shows; those of others begin with their first request.
_MAIN_ROUTE = "/predict"
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
_RATIOS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


# The labels of a series behind its version, and its value.
_Values = Iterable[tuple[Sequence[str], float]]


class AnswerCounts(Collector):
    """What the texts and answers of one model look like, beside the baseline of its checkpoint.

    Nothing here shows a single text: a text adds 1 to its bins, and its tokens to two sums.

    Args:
        checkpoint: the model; the bins are those of its baseline, or the usual ones without.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._version = checkpoint.version
        self._baseline = baseline = checkpoint.manifest.baseline
        self._unknown_id = checkpoint.tokenizer.unknown_id
        self._score_bounds = SCORE_BOUNDS if baseline is None else baseline.score_bounds
        self._length_bounds = LENGTH_BOUNDS if baseline is None else baseline.length_bounds
        self._scores = {
            label: [0] * (len(self._score_bounds) + 1) for label in checkpoint.config.labels
        }
        self._lengths = [0] * (len(self._length_bounds) + 1)
        self._truncated = self._tokens = self._unknown_tokens = 0

    def observe(self, answered: Sequence[tuple[Sequence[Encoding], Prediction]]) -> None:
        """Counts the answers of one request: of each text its windows and its prediction."""
        for _, prediction in answered:
            self._scores[prediction.best][bisect_left(self._score_bounds, prediction.score)] += 1
            self._lengths[bisect_left(self._length_bounds, prediction.token_count)] += 1
            self._truncated += prediction.truncated
            self._tokens += prediction.token_count
        windows = [window for each, _ in answered for window in each]
        self._unknown_tokens += count_unknown(windows, self._unknown_id)

    def collect(self) -> Iterator[Metric]:
        """Yields what was counted, and the baseline if there is one."""
        count = partial(self._family, CounterMetricFamily)
        text = "Texts answered, by label and score."
        yield count("answers", text, self._by_score(self._scores), "label", "score")
        text = "Texts answered, by the tokens that were read of them."
        yield count("answer_lengths", text, self._by_length(self._lengths), "tokens")
        text = "Texts answered of which a part was cut off."
        yield count("truncated_answers", text, _one(self._truncated))
        yield count("answer_tokens", "Tokens read of answered texts.", _one(self._tokens))
        text = "Tokens of answered texts that stand for what the vocabulary lacks."
        yield count("unknown_tokens", text, _one(self._unknown_tokens))
        if self._baseline is not None:
            yield from self._collect_baseline(self._baseline)

    def _collect_baseline(self, baseline: Baseline) -> Iterator[Metric]:
        gauge, rows = partial(self._family, GaugeMetricFamily), baseline.rows
        yield gauge("baseline_texts", "Texts of the baseline of the model.", _one(rows))
        text = "The part of the baseline's texts, by label and score."
        shares = _divided(self._by_score(baseline.scores), rows)
        yield gauge("baseline_answers_ratio", text, shares, "label", "score")
        text = "The part of the baseline's texts, by the tokens that were read of them."
        shares = _divided(self._by_length(baseline.lengths), rows)
        yield gauge("baseline_answer_lengths_ratio", text, shares, "tokens")
        text = "The part of the baseline's texts of which a part was cut off."
        yield gauge("baseline_truncated_answers_ratio", text, _one(baseline.truncated / rows))
        text = "The part of the baseline's tokens that stands for what the vocabulary lacks."
        share = baseline.unknown_tokens / max(baseline.tokens, 1)
        yield gauge("baseline_unknown_tokens_ratio", text, _one(share))

    def _by_score(self, scores: Mapping[str, Sequence[int]]) -> _Values:
        edges = itertools.pairwise(["0", *map(str, self._score_bounds), "1"])
        names = [f"{low}-{high}" for low, high in edges]
        for label in self._scores:
            for name, count in zip(names, scores[label], strict=True):
                yield (label, name), count

    def _by_length(self, lengths: Sequence[int]) -> _Values:
        edges = itertools.pairwise([0, *self._length_bounds])
        names = [f"{low + 1}-{high}" for low, high in edges]
        names.append(f"{self._length_bounds[-1] + 1} or more")
        for name, count in zip(names, lengths, strict=True):
            yield (name,), count

    def _family(
        self,
        kind: type[CounterMetricFamily | GaugeMetricFamily],
        name: str,
        text: str,
        values: _Values,
        *labels: str,
    ) -> Metric:
        family = kind(f"headlight_{name}", text, labels=["version", *labels])
        for key, value in values:
            family.add_metric([self._version, *key], value)
        return family


def _one(value: float) -> _Values:
    return [((), value)]


def _divided(values: _Values, whole: int) -> _Values:
    return [(key, value / whole) for key, value in values]


class Metrics:
    """Everything that one replica counts.

    A series that a shipped rule, alert or board reads exists from the start; others appear at
    their first use. `routes` are path, method and statuses that are counted from the start;
    `answers` counts the model's answers.
    """

    def __init__(
        self, routes: Iterable[tuple[str, str, Iterable[int]]], answers: AnswerCounts | None = None
    ) -> None:
        disable_created_metrics()  # else a second series would say when each began
        self.registry = CollectorRegistry()
        self._rendering: dict[str, asyncio.Future[bytes]] = {}
        self.requests = self._counter(
            "requests",
            "Requests answered, by route, method and status (499: the client left).",
            *("route", "method", "status"),
        )
        self.client_requests = self._counter(
            "client_requests", "Requests answered of API keys with a name.", "client"
        )
        self.seconds = self._histogram(
            "request_duration_seconds",
            "Time from the head of a request to the end of its answer.",
            _SECONDS,
            "route",
        )
        self.in_progress = self._gauge("requests_in_progress", "Requests being answered.")
        self.problems = self._counter(
            "problems", "Problems answered, by type; items of a batch included.", "type"
        )
        self.refused = self._counter(
            "refused_requests",
            "Requests refused that another replica, or a later time, may answer; by reason.",
            "reason",
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
        self.batch_texts = self._histogram("batch_texts", "Texts in one forward pass.", _TEXTS)
        self.batch_tokens = self._histogram(
            "batch_tokens", "Tokens in one forward pass, padding counted.", _TOKENS
        )
        self.batch_fill = self._histogram(
            "batch_fill_ratio",
            "Tokens in one forward pass, padding counted, for each token that it may hold.",
            _RATIOS,
        )
        self.forward_seconds = self._histogram(
            "forward_seconds",
            "Time of one forward pass, by path through the network.",
            _SECONDS,
            "path",
        )
        self.connections = self._gauge("connections", "Open connections.")
        self.connections_closed = self._counter(
            "connections_closed", "Connections closed to make room for others."
        )
        self.sending_bytes = self._gauge(
            "sending_bytes", "Bytes of large answers that are being made or wait to be sent."
        )
        self.memory_used = self._gauge(
            "memory_used_ratio", "Memory in use for each byte of its limit; 0 without a limit."
        )
        self.forward_failures = self._counter("forward_failures", "Forward passes that failed.")
        self.log_lines_lost = self._gauge("log_lines_lost", "Log lines that could not be written.")
        self.ready = self._gauge("ready", "1 if this replica is ready, else 0.")
        self.model = self._gauge(
            "model_info",
            "The model: 1 once it is loaded, else 0.",
            *("name", "version", "device", "dtype"),
        )
        self.answers = answers
        if answers is not None:
            self.registry.register(answers)
        ProcessCollector(namespace="headlight", registry=self.registry)
        self._start_series(routes)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"headlight_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"headlight_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"headlight_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _start_series(self, routes: Iterable[tuple[str, str, Iterable[int]]]) -> None:
        for route, method, statuses in routes:
            for status in statuses:
                self.requests.labels(route, method, str(status))
        self.seconds.labels(_MAIN_ROUTE)
        self.forward_seconds.labels(FUSED)
        for error in ALL_ERRORS:
            if error.status >= 500:
                self.problems.labels(error.type)
        for reason in Refusal:
            self.refused.labels(reason.value)

    def count_request(self, route: str, method: str, status: int, client: str | None) -> None:
        """Counts an answered request, and for its client if the key of that has a name."""
        self.requests.labels(route, method, str(status)).inc()
        if client is not None:
            self.client_requests.labels(client).inc()

    def count_problem(self, error: ServiceError) -> None:
        """Counts an error that is answered."""
        self.problems.labels(error.type).inc()
        if error.refusal is not None:
            self.refused.labels(error.refusal.value).inc()

    def observe_pass(
        self,
        encodings: list[Encoding],
        seconds: float,
        path: PathName,
        *,
        max_tokens: int,
        computes_padding: bool,
    ) -> None:
        """Counts a forward pass of one text or more that succeeded.

        `max_tokens` is the most of any pass, padding counted. With `computes_padding`, padding went
        through the network too.
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
        """Counts how long a request took; OpenMetrics shows the last trace of each bucket."""
        exemplar = None if trace_id is None else {"trace_id": trace_id}
        self.seconds.labels(route).observe(seconds, exemplar)

    async def render_once(
        self, media_type: str, call: Callable[[Callable[[], bytes]], Awaitable[bytes]]
    ) -> bytes:
        """Returns all metrics as `render`, by a call on a thread; who asks meanwhile shares it."""
        if media_type not in self._rendering:
            task = asyncio.ensure_future(call(partial(self.render, media_type)))
            self._rendering[media_type] = task
            task.add_done_callback(lambda _: self._rendering.pop(media_type))
        return await asyncio.shield(self._rendering[media_type])

    def render(self, media_type: str) -> bytes:
        """Returns all metrics as text of a type in `CONTENT_TYPES`; OpenMetrics has exemplars."""
        generate = generate_openmetrics if media_type == OPEN_METRICS else generate_latest
        return generate(self.registry)
