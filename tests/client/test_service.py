"""Both clients against a real service, compared with its JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from headlight_client import (
    Attention,
    AttentionSteps,
    Attributions,
    Importance,
    Metric,
    ModelInfo,
    ModelName,
    Prediction,
    Thumbnails,
    Token,
)
from tests.builders import LABELS, MAX_LENGTH
from tests.client.conftest import Ask
from tests.end_to_end.servers import RunningService

Named = Mapping[str, Any]

KEY = {"api_key": "the-key"}
TEXTS = ["A warm, funny film.", "not good 🎬 at all", "Schön"]


def as_json(running: RunningService, path: str, **content: object) -> Any:  # noqa: ANN401
    """What the service says, without the client."""
    with running.client(authorization="Bearer the-key") as client:
        response = client.post(path, json=content) if content else client.get(path)
        assert response.status_code == 200, response.text
        return response.json()


def expected_prediction(content: Any, model: ModelName) -> Prediction:  # noqa: ANN401
    return Prediction(**content, model=model)


def model_name(running: RunningService) -> ModelName:
    answer = as_json(running, "/model")
    return ModelName(answer["name"], answer["version"])


def assert_holds(attention: Attention, answer: Any) -> None:  # noqa: ANN401
    """Compares with the JSON of the same request."""
    model = ModelName(**answer["model"])
    assert attention.model == model
    assert attention.prediction == expected_prediction(answer["prediction"], model)
    assert attention.tokens == tuple(Token(**token) for token in answer["tokens"])
    assert attention.texts == [token["text"] for token in answer["tokens"]]
    assert attention.layers == tuple(answer["layers"])
    assert attention.heads == tuple(answer["heads"])
    assert attention.view == answer.get("view", "raw")
    assert attention.weights.dtype == np.float32
    # JSON has eight decimals.
    np.testing.assert_allclose(attention.weights, answer["attention"], rtol=0, atol=6e-9)


def test_predictions(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "predict", TEXTS, options=KEY)

    answer = as_json(running, "/predict", sentences=TEXTS)
    model = ModelName(**answer["model"])
    assert found == [expected_prediction(each, model) for each in answer["predictions"]]
    assert [set(each.probabilities) for each in found] == [set(LABELS)] * 3


def test_a_text_is_cut_at_the_end_that_is_asked_for(ask: Ask, running: RunningService) -> None:
    text = "good " * 40 + "bad"
    for truncation in ("right", "left"):
        (found,) = ask(running.url, "predict", [text], truncation=truncation, options=KEY)

        answer = as_json(running, "/predict", sentences=[text], truncation=truncation)
        assert found.probabilities == answer["predictions"][0]["probabilities"]
        assert (found.truncated, found.token_count) == (True, MAX_LENGTH)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"layers": [1]},
        {"layers": np.array([0]), "heads": (1, 0)},
        {"reduce": "mean"},
        {"reduce": "max", "level": "word"},
        {"reduce": "rollout", "level": "word"},
    ],
)
def test_attention(ask: Ask, running: RunningService, named: Named) -> None:
    text = "A warm, funny film 🎬!"
    attention = ask(running.url, "attention", text, **named, options=KEY)

    asked = {
        {"layers": "layer", "heads": "head"}.get(name, name): (
            value if isinstance(value, str) else [int(number) for number in value]
        )
        for name, value in named.items()
    }
    assert_holds(attention, as_json(running, "/attention", sentence=text, **asked))


def test_attention_of_several(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "attentions", TEXTS, layers=[0], level="word", options=KEY)

    answers = as_json(running, "/attention", sentences=TEXTS, layer=[0], level="word")
    for attention, answer in zip(found, answers, strict=True):
        assert_holds(attention, answer)


def test_attention_of_a_cut_text(ask: Ask, running: RunningService) -> None:
    text = "good " * 40 + "bad"
    attention = ask(
        running.url, "attention", text, layers=[0], heads=[0], truncation="left", options=KEY
    )

    assert attention.prediction.truncated
    assert attention.tokens[-2] == Token("bad", 200, 203, special=False, word=40)


def test_the_names_of_joined_axes(ask: Ask, running: RunningService) -> None:
    named: Named
    for named, layers, heads in (
        ({}, [0, 1], [0, 1]),
        ({"layers": [1], "heads": [1]}, [1], [1]),
        ({"reduce": "mean", "level": "word"}, [0, 1], [None]),
        ({"reduce": "rollout"}, [None], [None]),
    ):
        attention = ask(running.url, "attention", "good", **named, options=KEY)
        assert (attention.layer_names, attention.head_names) == (layers, heads)
        assert attention.weights.shape[:2] == (len(layers), len(heads))


def test_the_model(ask: Ask, running: RunningService) -> None:
    answer = as_json(running, "/model")

    assert ask(running.url, "model", options=KEY) == ModelInfo(
        **answer
        | {
            "labels": LABELS,
            "metrics": (Metric("dev", 100, 0.8, (0.711, 0.867), 0.45, 0.03),),
        }
    )


def test_readiness_needs_no_key(ask: Ask, running: RunningService) -> None:
    assert ask(running.url, "is_ready") is True
    assert ask(f"{running.url}/", "is_ready") is True


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "gradient_x_input", "level": "word"},
        {"label": LABELS[0], "steps": 3, "truncation": "left"},
    ],
)
def test_attributions(ask: Ask, running: RunningService, options: Named) -> None:
    found = ask(running.url, "attributions", TEXTS[0], options=KEY, **options)

    answer = as_json(running, "/attributions", sentence=TEXTS[0], **options)
    model = ModelName(**answer["model"])
    assert isinstance(found, Attributions)
    assert (found.model, found.prediction) == (
        model,
        expected_prediction(answer["prediction"], model),
    )
    assert found.texts == [token["text"] for token in answer["tokens"]]
    assert found.tokens == tuple(Token(**token) for token in answer["tokens"])
    assert found.values.tolist() == answer["attributions"]
    assert (found.label, found.view, found.steps) == (
        answer["label"],
        answer["view"],
        answer["steps"],
    )
    assert (found.value, found.baseline_value, found.gap) == (
        answer["value"],
        answer["baseline_value"],
        answer["gap"],
    )


def test_importance(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "importance", TEXTS[0], options=KEY, label=LABELS[1])

    answer = as_json(running, "/importance", sentence=TEXTS[0], label=LABELS[1])
    model = ModelName(**answer["model"])
    assert isinstance(found, Importance)
    assert (found.model, found.label) == (model, LABELS[1])
    assert found.prediction == expected_prediction(answer["prediction"], model)
    assert (found.layers, found.heads) == (tuple(answer["layers"]), tuple(answer["heads"]))
    assert found.values.tolist() == answer["importance"]


@pytest.mark.parametrize(
    "options",
    [
        {"layer": 1, "head": 0, "query": 2},
        {"layer": np.int64(0), "head": 1, "query": 1, "head_mask": [{"layer": 0}], "omit": [2]},
        {"layer": 1, "head": 1, "query": 0, "truncation": "window", "window": 0},
    ],
)
def test_attention_steps(ask: Ask, running: RunningService, options: Named) -> None:
    found = ask(running.url, "attention_steps", TEXTS[0], options=KEY, **options)

    asked = {**options, "layer": int(options["layer"])}
    answer = as_json(running, "/attention/steps", sentence=TEXTS[0], **asked)
    assert isinstance(found, AttentionSteps)
    assert found.model == ModelName(**answer["model"])
    assert found.tokens == tuple(Token(**token) for token in answer["tokens"])
    assert found.texts == [token["text"] for token in answer["tokens"]]
    for name in ("layer", "head", "query", "scale"):
        assert getattr(found, name) == answer[name]
    for name in ("query_vector", "keys", "scores", "weights", "values", "result"):
        numbers = getattr(found, name)
        assert numbers.dtype == np.float32
        np.testing.assert_array_equal(numbers, np.array(answer[name], np.float32))
    assert (found.window, found.windows) == (answer.get("window"), answer.get("windows"))
    scores = found.keys @ found.query_vector * found.scale
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.weights @ found.values, found.result, rtol=0, atol=1e-5)
    row = ask(
        running.url, "attention", TEXTS[0], options=KEY,
        layers=[found.layer], heads=[found.head],
        **{name: options[name] for name in ("head_mask", "omit") if name in options},
    ).weights[0, 0, found.query]  # fmt: skip
    np.testing.assert_allclose(found.weights, row, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "named",
    [
        {"layers": [0], "heads": [1]},
        {"size": np.int64(10), "special": False, "layers": [1], "heads": [0, 1]},
        {"reduce": "mean", "level": "word", "omit": [2]},
        {"truncation": "window", "window": 1, "head_mask": [{"layer": 0}], "size": 16},
    ],
)
def test_thumbnails(ask: Ask, running: RunningService, named: Named) -> None:
    text = "good film, bad plot, " * 12
    found = ask(running.url, "thumbnails", text, options=KEY, **named)

    names = {"layers": "layer", "heads": "head", "size": "thumbnail"}
    asked = {names.get(name, name): value for name, value in named.items()}
    asked["thumbnail"] = int(asked.get("thumbnail", 48))
    answer = as_json(running, "/attention", sentence=text, **asked)
    assert isinstance(found, Thumbnails)
    assert found.model == ModelName(**answer["model"])
    assert found.prediction == expected_prediction(answer["prediction"], found.model)
    assert found.tokens == tuple(Token(**token) for token in answer["tokens"])
    assert (found.layers, found.heads) == (tuple(answer["layers"]), tuple(answer["heads"]))
    assert found.view == answer["view"]
    assert (found.window, found.windows) == (answer.get("window"), answer.get("windows"))
    np.testing.assert_allclose(found.maps, answer["attention"], rtol=0, atol=6e-9)
    assert found.strongest.tolist() == answer["strongest"]
    np.testing.assert_allclose(
        found.strongest_weights, answer["strongest_weights"], rtol=0, atol=6e-9
    )


def test_a_thumbnail_beside_the_whole_map(ask: Ask, running: RunningService) -> None:
    text = "good film, bad plot, " * 12
    head = {"layers": [1], "heads": [0], "options": KEY}
    reduced = ask(running.url, "thumbnails", text, size=8, **head)
    whole = ask(running.url, "attention", text, **head).weights

    length, size = len(reduced.tokens), reduced.maps.shape[-1]
    assert (length, size) == (MAX_LENGTH, 8)
    row = np.arange(length) * size // length
    expected = np.zeros_like(reduced.maps)
    for query in range(length):
        for key in range(length):
            cell = expected[:, :, row[query], row[key]]
            np.maximum(cell, whole[:, :, query, key], out=cell)
    np.testing.assert_allclose(reduced.maps, expected, rtol=0, atol=1e-6)
    assert reduced.strongest.tolist() == whole.argmax(axis=-1).tolist()
