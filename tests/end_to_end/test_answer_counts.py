"""What `/metrics` counts of answered texts, exactly, on every path that predicts."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families

from model import Predictor, load_predictor, open_checkpoint
from tests.builders import tiny_baseline, tiny_checkpoint, tiny_manifest, tiny_thresholds
from tests.end_to_end.routes import MANY, PREDICT, ROUTES, predict, send
from tests.end_to_end.servers import RunningService, local_service

# Two snowmen, which the vocabulary lacks, and a text that is cut.
TEXTS = ["a good film", "\u2603 \u2603 dull", "good " * 40, "weak", "the cast is superb, but slow"]
Series = tuple[str, tuple[str, ...]]


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


def series(running: RunningService, kind: str) -> dict[Series, float]:
    """The series of answered texts, by their names and the values of their labels."""
    return {
        (
            sample.name.removeprefix("headlight_"),
            tuple(value for name, value in sorted(sample.labels.items()) if name != "version"),
        ): sample.value
        for family in text_string_to_metric_families(running.metrics())
        for sample in family.samples
        if family.type == kind and "version" in sample.labels
    }


def counts(running: RunningService) -> Counter[Series]:
    return Counter({name: int(value) for name, value in series(running, "counter").items()})


def expected(predictor: Predictor, texts: list[str]) -> Counter[Series]:
    """What is counted of texts, by the bins of the baseline."""
    baseline = tiny_baseline()
    scores = ["0-0.6", "0.6-0.75", "0.75-0.9", "0.9-1"]
    lengths = ["1-8", "9-16", "17 or more"]
    found: Counter[Series] = Counter()
    for text in texts:
        encoding = predictor.encode(text)
        (answer,) = predictor.predict([encoding])
        score = scores[bisect_left(baseline.score_bounds, answer.score)]
        tokens = lengths[bisect_left(baseline.length_bounds, answer.token_count)]
        found["answers_total", (answer.best, score)] += 1
        found["answer_lengths_total", (tokens,)] += 1
        found["truncated_answers_total", ()] += answer.truncated
        found["answer_tokens_total", ()] += answer.token_count
        found["unknown_tokens_total", ()] += encoding.input_ids.count(1)
    return found


@pytest.mark.parametrize("name", MANY)
def test_every_path_that_predicts_counts_its_texts(
    running: RunningService, predictor: Predictor, name: str
) -> None:
    before = counts(running)
    with running.client() as client:
        assert send(client, MANY[name], *TEXTS).status_code == 200
    wanted = expected(predictor, TEXTS)
    assert wanted["truncated_answers_total", ()] == 1
    assert wanted["unknown_tokens_total", ()] == 2
    assert counts(running) - before == +wanted


def test_what_is_refused_or_explained_is_not_counted(
    running: RunningService, predictor: Predictor
) -> None:
    before = counts(running)
    with running.client() as client:
        answered = predict(client, "weak", " ", 7, "\u2603", on_error="item")
        assert send(client, PREDICT, "good", " ").status_code == 422
        for name in ROUTES.keys() - MANY.keys():
            assert send(client, ROUTES[name], "a good film").status_code == 200
    assert ["error" in each for each in answered] == [False, True, True, False]
    assert counts(running) - before == +expected(predictor, ["weak", "\u2603"])


def test_baseline_and_thresholds_are_there_as_shares(running: RunningService) -> None:
    found = {
        (name.removeprefix("baseline_"), *labels): value
        for (name, labels), value in series(running, "gauge").items()
        if name.startswith("baseline_")
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
