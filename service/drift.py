"""Counts what answered texts look like and how they are answered, beside a checkpoint's baseline.

Nothing here is of a single text: a text adds 1 to its bins, and its tokens to two sums. The labels
are those of the model, and the bins are fixed. So the series are few, and exist from the start.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from model import Checkpoint, Encoding, Prediction
from model.checkpoint.baseline import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline

# The labels of a series behind its version, and its value.
_Values = Iterable[tuple[Sequence[str], float]]


class AnswerCounts(Collector):
    """The counts of one model, as Prometheus collects them.

    A text costs about a microsecond: two searches among few bounds, and one for an id among its
    tokens.

    Args:
        checkpoint: what answers. The bins are those of its baseline, or the usual ones without.
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

    def observe(self, answered: Iterable[tuple[Sequence[Encoding], Prediction]]) -> None:
        """Counts the answers of one request.

        Args:
            answered: what was read of each text, in one window or several, and its prediction.
        """
        for windows, prediction in answered:
            self._scores[prediction.label][bisect_left(self._score_bounds, prediction.score)] += 1
            self._lengths[bisect_left(self._length_bounds, prediction.token_count)] += 1
            self._truncated += prediction.truncated
            self._tokens += prediction.token_count
            if self._unknown_id is not None:
                self._unknown_tokens += sum(
                    encoding.input_ids.count(self._unknown_id) for encoding in windows
                )

    def collect(self) -> Iterator[Metric]:
        """Yields what was counted since the start, and the baseline if there is one."""
        count = self._counter
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
        gauge, rows = self._gauge, baseline.rows
        yield gauge("texts", "Texts of the baseline of the model.", _one(rows))
        text = "The part of the baseline's texts, by label and score."
        shares = _divided(self._by_score(baseline.scores), rows)
        yield gauge("answers_ratio", text, shares, "label", "score")
        text = "The part of the baseline's texts, by the tokens that were read of them."
        shares = _divided(self._by_length(baseline.lengths), rows)
        yield gauge("answer_lengths_ratio", text, shares, "tokens")
        text = "The part of the baseline's texts of which a part was cut off."
        yield gauge("truncated_answers_ratio", text, _one(baseline.truncated / rows))
        text = "The part of the baseline's tokens that stands for what the vocabulary lacks."
        share = baseline.unknown_tokens / max(baseline.tokens, 1)
        yield gauge("unknown_tokens_ratio", text, _one(share))

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

    def _counter(self, name: str, text: str, values: _Values, *labels: str) -> Metric:
        family = CounterMetricFamily(f"headlight_{name}", text, labels=["version", *labels])
        for key, value in values:
            family.add_metric([self._version, *key], value)
        return family

    def _gauge(self, name: str, text: str, values: _Values, *labels: str) -> Metric:
        family = GaugeMetricFamily(f"headlight_baseline_{name}", text, labels=["version", *labels])
        for key, value in values:
            family.add_metric([self._version, *key], value)
        return family


def _one(value: float) -> _Values:
    return [((), value)]


def _divided(values: _Values, whole: int) -> _Values:
    return [(key, value / whole) for key, value in values]
