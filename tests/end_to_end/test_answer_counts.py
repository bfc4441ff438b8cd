"""What `/metrics` counts of answered texts, exactly, on every path that predicts."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families

from model import Predictor, load_predictor, open_checkpoint
from tests.builders import (
    tiny_baseline,
    tiny_checkpoint,
    tiny_manifest,
    tiny_thresholds,
)
from tests.end_to_end.routes import MANY, PREDICT, ROUTES, send
from tests.end_to_end.servers import RunningService, local_service

# Two snowmen, which the vocabulary lacks, and a text that is cut.
TEXTS = ["a good film", "\u2603 \u2603 dull", "good " * 40, "weak", "the cast is superb, but slow"]
Counts = Counter[tuple[str, tuple[tuple[str, str], ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(
        tmp_path_factory.mktemp("checkpoints") / "tiny",
        manifest=tiny_manifest(baseline=tiny_baseline(), thresholds=tiny_thresholds()),
    )


@pytest.fixture(scope="module")
def running(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with local_service(folder, tmp_path_factory.mktemp("running")) as server:
        yield server


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    checkpoint = open_checkpoint(folder)
    return load_predictor(checkpoint, device=torch.device("cpu"), dtype=torch.float32)


def counts(running: RunningService) -> Counts:
    """The series of answered texts, without their version."""
    return Counter(
        {
            (sample.name, tuple(sorted(without_version(sample.labels).items()))): int(sample.value)
            for family in text_string_to_metric_families(running.metrics())
            for sample in family.samples
            if family.type == "counter" and "version" in sample.labels
        }
    )


def without_version(labels: dict[str, str]) -> dict[str, str]:
    """The labels of a series that tell one bin from another."""
    return {name: value for name, value in labels.items() if name != "version"}


def expected(predictor: Predictor, texts: list[str]) -> Counts:
    """What is counted of texts, by the bins of the baseline."""
    baseline = tiny_baseline()
    scores = ["0-0.6", "0.6-0.75", "0.75-0.9", "0.9-1"]
    lengths = ["1-8", "9-16", "17 or more"]
    found: Counts = Counter()
    for text in texts:
        encoding = predictor.encode(text)
        (answer,) = predictor.predict([encoding])
        place = scores[bisect_left(baseline.score_bounds, answer.score)]
        found["headlight_answers_total", (("label", answer.label), ("score", place))] += 1
        tokens = lengths[bisect_left(baseline.length_bounds, answer.token_count)]
        found["headlight_answer_lengths_total", (("tokens", tokens),)] += 1
        found["headlight_truncated_answers_total", ()] += answer.truncated
        found["headlight_answer_tokens_total", ()] += answer.token_count
        found["headlight_unknown_tokens_total", ()] += encoding.input_ids.count(1)
    return found


@pytest.mark.parametrize("name", MANY)
def test_every_path_that_predicts_counts_its_texts(
    running: RunningService, predictor: Predictor, name: str
) -> None:
    before = counts(running)

    with running.client() as client:
        assert send(client, MANY[name], *TEXTS).status_code == 200

    wanted = expected(predictor, TEXTS)
    assert wanted["headlight_truncated_answers_total", ()] == 1
    assert wanted["headlight_unknown_tokens_total", ()] == 2
    assert counts(running) - before == +wanted


def test_a_bad_item_is_not_counted_and_the_others_are(
    running: RunningService, predictor: Predictor
) -> None:
    before = counts(running)
    body = {"sentences": ["weak", " ", 7, "\u2603"], "on_error": "item"}

    with running.client() as client:
        answered = client.post("/predict", json=body).json()["predictions"]

    assert ["error" in each for each in answered] == [False, True, True, False]
    assert counts(running) - before == +expected(predictor, ["weak", "\u2603"])


def test_what_is_refused_or_explained_is_not_counted(running: RunningService) -> None:
    before = counts(running)

    with running.client() as client:
        assert send(client, PREDICT, "good", " ").status_code == 422
        for name in ROUTES.keys() - MANY.keys():
            assert send(client, ROUTES[name], "a good film").status_code == 200

    assert counts(running) == before


def test_the_baseline_is_there_as_shares(running: RunningService) -> None:
    families = text_string_to_metric_families(running.metrics())
    found = {
        (
            sample.name.removeprefix("headlight_baseline_"),
            *(value for _, value in sorted(without_version(sample.labels).items())),
        ): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("headlight_baseline_")
    }

    assert found == {
        ("texts",): 1000,
        ("answers_ratio", "negative", "0-0.6"): 0.1,
        ("answers_ratio", "negative", "0.6-0.75"): 0.15,
        ("answers_ratio", "negative", "0.75-0.9"): 0.15,
        ("answers_ratio", "negative", "0.9-1"): 0.0,
        ("answers_ratio", "positive", "0-0.6"): 0.2,
        ("answers_ratio", "positive", "0.6-0.75"): 0.1,
        ("answers_ratio", "positive", "0.75-0.9"): 0.2,
        ("answers_ratio", "positive", "0.9-1"): 0.1,
        ("answer_lengths_ratio", "1-8"): 0.7,
        ("answer_lengths_ratio", "9-16"): 0.2,
        ("answer_lengths_ratio", "17 or more"): 0.1,
        ("truncated_answers_ratio",): 0.05,
        ("unknown_tokens_ratio",): 0.002,
    }


def test_the_thresholds_are_there_as_shares(running: RunningService) -> None:
    with running.client() as client:
        shown = client.get("/model").json()["thresholds"]

    first, second = shown.pop("by_threshold")
    assert shown == {"sets": ["dev"], "rows": 1000}
    assert first["threshold"] == 0.5
    assert second == {
        "threshold": 0.9,
        "rows": 200,
        "share": 0.2,
        "accuracy": 0.75,
        "precision": {"negative": None, "positive": 0.75},
        "recall": {"negative": 0.0, "positive": 0.25},
    }
