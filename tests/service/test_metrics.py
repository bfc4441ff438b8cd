"""What is counted, and how it is shown."""

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry

from model import Encoding, Prediction, open_checkpoint
from service.metrics import EXPLICIT, FUSED, AnswerCounts, Metrics
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest


def value(metrics: Metrics, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    return metrics.registry.get_sample_value(name, dict(labels or {}))


def texts(*lengths: int) -> list[Encoding]:
    return [Encoding([1] * length, truncated=False) for length in lengths]


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


def shown(counts: AnswerCounts) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(counts)
    return {
        (
            sample.name.removeprefix("headlight_"),
            *(value for name, value in sample.labels.items() if name != "version"),
        ): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def answer(label: str, score: float, length: int, *, truncated: bool = False) -> Prediction:
    return Prediction(label, score, {}, length, truncated)


def test_a_text_adds_one_to_its_ranges(checkpoint_folder: Path) -> None:
    counts = AnswerCounts(open_checkpoint(checkpoint_folder))
    counts.observe(
        [
            ([Encoding([2, 1, 1, 3] + [2] * 4, truncated=False)], answer("positive", 0.95, 8)),
            ([Encoding([2] * 9, truncated=True)], answer("negative", 0.951, 9, truncated=True)),
            # Read in two windows, and one text all the same.
            (
                [Encoding([2] * 512, truncated=False), Encoding([1], truncated=False)],
                answer("negative", 1.0, 513),
            ),
        ]
    )
    counts.observe([])

    assert {key: value for key, value in shown(counts).items() if value} == {
        ("answers_total", "positive", "0.9-0.95"): 1,
        ("answers_total", "negative", "0.95-0.97"): 1,
        ("answers_total", "negative", "0.99-1"): 1,
        ("answer_lengths_total", "1-8"): 1,
        ("answer_lengths_total", "9-16"): 1,
        ("answer_lengths_total", "513 or more"): 1,
        ("truncated_answers_total",): 1,
        ("answer_tokens_total",): 530,
        ("unknown_tokens_total",): 3,
    }


def test_bounds_that_are_near_each_other_have_names_of_their_own(tmp_path: Path) -> None:
    near = tiny_baseline(score_bounds=[0.6, 0.9, 0.90000001])
    path = tiny_checkpoint(tmp_path / "a", manifest=tiny_manifest(baseline=near))
    found = shown(AnswerCounts(open_checkpoint(path)))
    assert ("answers_total", "positive", "0.9-0.90000001") in found
    assert len(found) == 2 * (8 + 3) + 3 + 3
