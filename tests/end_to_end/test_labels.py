"""Choices among some of the model's labels, and warnings of its language."""

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from model import load
from tests.builders import tiny_checkpoint, tiny_config, tiny_manifest
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem, post, predict
from tests.end_to_end.servers import local_service
from tests.matching import near

THREE = ("negative", "neutral", "positive")
PAIR = ["positive", "negative"]  # answers keep the order of the model
TEXTS = ["a good film", "a bad film. The cast is superb!", "good " * 60]
GERMAN = "Das ist ein Film und der ist gut"
# Of all labels, and of the pair.
WHOLE, OWN = 1.5, 0.75


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of three classes with a temperature of its own for the pair."""
    manifest = tiny_manifest(labels=THREE, temperature=WHOLE, pair_temperature=OWN, language="en")
    folder = tmp_path_factory.mktemp("three") / "three"
    return tiny_checkpoint(folder, config=tiny_config(labels=THREE), manifest=manifest)


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    log = tmp_path_factory.mktemp("log")
    with local_service(folder, log) as running, running.client() as client:
        yield client


@pytest.mark.parametrize("labels", [PAIR, ["neutral", "negative"], list(THREE)])
@pytest.mark.parametrize("fields", [{}, {"truncation": "window"}, {"abstain_below": 0.9}])
def test_predictions_are_those_of_the_package(
    client: httpx.Client, folder: Path, labels: list[str], fields: dict[str, Any]
) -> None:
    expected = load(folder, "cpu", "float32").predict(TEXTS, labels=labels, **fields)
    found = predict(client, *TEXTS, labels=labels, **fields)
    for one, other in zip(found, expected, strict=True):
        members = other.members()
        assert near({name: one[name] for name in members}, members)


def test_each_sentence_has_the_choice_that_it_has_alone(client: httpx.Client) -> None:
    (whole,) = predict(client, TEXTS[1], labels=PAIR, granularity="sentence")
    assert len(whole["sentences"]) == 2
    for each in whole["sentences"]:
        (alone,) = predict(client, TEXTS[1][each["start"] : each["end"]], labels=PAIR)
        assert near({name: each[name] for name in alone}, alone)
    assert list(predict(client, " ", labels=PAIR, on_error="item")[0]) == ["error"]


def test_attention(client: httpx.Client) -> None:
    (expected,) = predict(client, TEXTS[0], labels=PAIR)
    query: dict[str, Any] = {"sentence": TEXTS[0], "layer": 0, "head": 0, "labels": PAIR}
    shown = client.get("/attention", params=query).json()["prediction"]
    assert list(shown["probabilities"]) == ["negative", "positive"]
    assert shown["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)
    assert shown["label"] == expected["label"]
    for each in post(client, "/attention", sentences=TEXTS[:2], labels=PAIR):
        assert list(each["prediction"]["probabilities"]) == ["negative", "positive"]
    content = client.get("/attention", params={**query, "format": "npz"}).content
    arrays = np.load(io.BytesIO(content))
    assert arrays["labels"].tolist() == ["negative", "positive"]
    assert arrays["probabilities"] == pytest.approx(list(expected["probabilities"].values()))


@pytest.mark.parametrize("method", ["integrated_gradients", "gradient_x_input", "leave_out"])
def test_attributions_are_of_the_log_odds_among_the_labels(
    client: httpx.Client, method: str
) -> None:
    asked: dict[str, Any] = {"sentence": TEXTS[0], "method": method, "labels": PAIR}
    (expected,) = predict(client, TEXTS[0], labels=PAIR)
    found = post(client, "/attributions", **asked)
    other = post(client, "/attributions", **asked, label="negative")

    share = expected["probabilities"][found["label"]]
    assert found["label"] == expected["label"]
    assert found["prediction"]["probabilities"] == pytest.approx(expected["probabilities"])
    assert found["value"] == pytest.approx(math.log(share / (1 - share)), abs=1e-5)
    sign = 1 if found["label"] == "negative" else -1
    assert other["value"] == pytest.approx(sign * found["value"], abs=1e-6)
    assert other["attributions"] == pytest.approx([sign * each for each in found["attributions"]])
    if method == "leave_out":
        (without,) = predict(client, TEXTS[0], labels=PAIR, omit=[2])
        left = found["units"][1]["probability"]
        assert left == pytest.approx(without["probabilities"][found["label"]], abs=1e-6)


def test_importance(client: httpx.Client) -> None:
    both = [
        post(client, "/importance", sentence=TEXTS[0], labels=PAIR, label=label) for label in PAIR
    ]
    assert list(both[0]["prediction"]["probabilities"]) == ["negative", "positive"]
    # The log-odds of two labels differ only by their sign.
    np.testing.assert_allclose(both[0]["importance"], both[1]["importance"], rtol=1e-5)
    plain = post(client, "/importance", sentence=TEXTS[0], label="positive")
    assert not np.allclose(plain["importance"], both[0]["importance"])


@pytest.mark.parametrize("path", ["/predict", "/attention", "/attributions", "/importance"])
def test_no_choice_is_refused_with_the_labels(client: httpx.Client, path: str) -> None:
    text: dict[str, object] = {"sentences": ["a"]} if path == "/predict" else {"sentence": "a"}
    for labels in ([], ["positive", "positive"], ["negative", "angry"]):
        refused = client.post(path, json={**text, "labels": labels})
        says = "give two or more different ones of the model's labels: negative, neutral, positive."
        assert_problem(refused, 422, "invalid-request", ("body", "labels"), says=says)
    if path in ("/attributions", "/importance"):
        refused = client.post(path, json={**text, "label": "neutral", "labels": PAIR})
        says = "`label` must be one of `labels`"
        assert_problem(refused, 422, "invalid-request", ("body", "labels"), says=says)


def test_other_systems_always_get_all_classes(client: httpx.Client) -> None:
    (ranked,) = post(client, "/hf", inputs="a film")
    assert {each["label"] for each in ranked} == set(THREE)
    assert post(client, "/classify", input="a film")["data"][0]["num_classes"] == 3
    outputs = client.get("/v2/models/three").json()["outputs"]
    shapes = {output["name"]: output["shape"] for output in outputs}
    assert (shapes["probabilities"], shapes["logits"]) == ([-1, 3], [-1, 3])


def test_the_interface_and_the_model_name_the_labels_and_the_language(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    fields = document["components"]["schemas"]["PredictRequest"]["properties"]
    assert fields["labels"]["anyOf"][0]["items"]["enum"] == list(THREE)
    parameters = document["paths"]["/attention"]["get"]["parameters"]
    (parameter,) = (each for each in parameters if each["name"] == "labels")
    assert parameter["example"] == ["negative", "neutral"]
    described = client.get("/model").json()
    assert (described["language"], described["pair_temperature"]) == ("en", OWN)


def test_answers_warn_of_other_languages(client: httpx.Client) -> None:
    english, german = predict(client, "This is a good film", GERMAN, labels=PAIR)
    assert "warnings" not in english
    assert german["warnings"] == ["not-english"]
    (whole,) = predict(client, GERMAN, granularity="sentence")
    assert whole["warnings"] == ["not-english"]
    assert "warnings" not in whole["sentences"][0]
    for path, fields in (
        ("/attention", {}),
        ("/attributions", {}),
        ("/attributions", {"method": "leave_out"}),
        ("/importance", {}),
    ):
        shown = post(client, path, sentence=GERMAN, **fields)["prediction"]
        assert shown["warnings"] == ["not-english"]
        assert "warnings" not in post(client, path, sentence="a", **fields)["prediction"]
    content = client.post("/attention", json={"sentence": GERMAN, "format": "npz"}).content
    assert np.load(io.BytesIO(content))["warnings"].tolist() == ["not-english"]


def test_without_the_setting_or_the_language_there_are_no_warnings(
    folder: Path, start: Start, tmp_path: Path
) -> None:
    off = {"HEADLIGHT_LANGUAGE_WARNING": "off"}
    with local_service(folder, tmp_path, settings=off) as running, running.client() as client:
        assert "warnings" not in predict(client, GERMAN)[0]
        assert "warnings" not in post(client, "/importance", sentence=GERMAN)["prediction"]
    with start() as running, running.client() as client:
        assert client.get("/model").json()["language"] is None
        assert "warnings" not in predict(client, GERMAN)[0]
