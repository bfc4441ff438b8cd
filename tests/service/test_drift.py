"""What a text adds to the counts, and the series that show them."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from model import Encoding, Prediction, open_checkpoint
from service.metrics import PROMETHEUS_TEXT, AnswerCounts, Metrics
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_config, tiny_manifest


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


def test_the_ranges_are_those_of_the_baseline(tmp_path: Path) -> None:
    manifest = tiny_manifest(baseline=tiny_baseline())
    found = shown(AnswerCounts(open_checkpoint(tiny_checkpoint(tmp_path / "a", manifest=manifest))))

    used = [key[2] for key in found if key[:2] == ("answers_total", "negative")]
    assert used == ["0-0.6", "0.6-0.75", "0.75-0.9", "0.9-1"]
    baseline = [key[2] for key in found if key[:2] == ("baseline_answers_ratio", "negative")]
    assert baseline == used
    assert sum(value for key, value in found.items() if key[0] == "baseline_answers_ratio") == (
        pytest.approx(1.0)
    )


def test_bounds_that_are_near_each_other_have_names_of_their_own(tmp_path: Path) -> None:
    near = tiny_baseline(score_bounds=[0.6, 0.9, 0.90000001])
    path = tiny_checkpoint(tmp_path / "a", manifest=tiny_manifest(baseline=near))
    found = shown(AnswerCounts(open_checkpoint(path)))
    assert ("answers_total", "positive", "0.9-0.90000001") in found
    assert len(found) == 2 * (8 + 3) + 3 + 3


def test_labels_are_escaped(tmp_path: Path) -> None:
    labels = ('a "quoted" one', "back\\slash")
    path = tiny_checkpoint(tmp_path / "a", config=tiny_config(labels=labels))
    metrics = Metrics([])
    metrics.expect_answers(AnswerCounts(open_checkpoint(path)))
    text = metrics.render(PROMETHEUS_TEXT).decode()
    assert 'label="a \\"quoted\\" one"' in text
    assert 'label="back\\\\slash"' in text
    metrics.observe_answers([([Encoding([2], truncated=False)], answer(labels[1], 0.7, 1))])
    name = {"label": labels[1], "score": "0.6-0.7", "version": open_checkpoint(path).version}
    assert metrics.registry.get_sample_value("headlight_answers_total", name) == 1
