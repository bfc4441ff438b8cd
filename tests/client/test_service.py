"""The clients against a real service: answers compared with its JSON, and its rejections."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from headlight_client import (
    Attention,
    FieldError,
    InvalidRequestError,
    ItemError,
    Metric,
    ModelInfo,
    ModelName,
    Prediction,
    Sentence,
    Token,
    Unit,
)
from tests.builders import LABELS
from tests.client.conftest import Ask, ask_client
from tests.end_to_end.servers import RunningService

Named = Mapping[str, Any]

KEY = {"api_key": "the-key"}
TEXTS = ["A warm, funny film.", "not good 🎬 at all", "Schön"]
LONG = "good film, bad plot, " * 12
BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)
# Names in JSON of arguments and members of the client.
ARGUMENTS = {"layers": "layer", "heads": "head", "size": "thumbnail"}
MEMBERS = {"weights": "attention", "maps": "attention", "values": "attributions"}


def as_json(running: RunningService, path: str, **content: object) -> Any:  # noqa: ANN401
    """The service's answer without the client."""
    with running.client(authorization="Bearer the-key") as client:
        response = client.post(path, json=content) if content else client.get(path)
        assert response.status_code == 200, response.text
        return response.json()


def to_json(named: Named) -> dict[str, Any]:
    """The JSON of arguments of the client."""
    return {
        ARGUMENTS.get(name, name): np.asarray(value).tolist()
        if isinstance(value, np.ndarray | np.integer | tuple)
        else value
        for name, value in named.items()
    }


def to_prediction(content: Any, model: ModelName) -> Prediction:  # noqa: ANN401
    return Prediction(**content, model=model)


def assert_holds(result: Any, answer: Any, **names: str) -> None:  # noqa: ANN401
    """Compares every member of a result with the JSON of the same request."""
    names = MEMBERS | names
    model = ModelName(**answer["model"])
    for name in (field.name for field in fields(result)):
        value = getattr(result, name)
        content = answer.get(name) if name in answer else answer.get(names.get(name, name))
        if name == "model":
            assert value == model
        elif name == "prediction":
            assert value == to_prediction(content, model)
        elif name == "tokens":
            assert value == tuple(Token(**token) for token in content)
            assert result.texts == [token["text"] for token in content]
        elif name == "units":
            assert value == tuple(Unit(**unit) for unit in content or ())
        elif name == "partial":
            assert value is bool(content)
        elif isinstance(value, np.ndarray):
            # JSON has eight decimals, or those of float32.
            np.testing.assert_allclose(value, content, rtol=1e-7, atol=6e-9)
        elif isinstance(value, tuple):
            assert list(value) == content
        else:
            assert value == ("raw" if (name, content) == ("view", None) else content)


def test_predictions(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "predict", TEXTS, options=KEY)
    answer = as_json(running, "/predict", sentences=TEXTS)
    model = ModelName(**answer["model"])
    assert found == [to_prediction(each, model) for each in answer["predictions"]]
    assert [set(each.probabilities) for each in found] == [set(LABELS)] * 3


def test_sentences_and_windows_of_long_texts(running: RunningService) -> None:
    text = "A warm film. 🎬 The plot is dull!"
    named = {"granularity": "sentence", "abstain_below": 1.0, "truncation": "window"}
    found = ask_client(running.url, "predict", [text, LONG], options=KEY, **named)
    answer = as_json(running, "/predict", sentences=[text, LONG], **named)
    model = ModelName(**answer["model"])
    for prediction, content in zip(found, answer["predictions"], strict=True):
        sentences = tuple(Sentence(**each) for each in content.pop("sentences"))
        assert prediction == Prediction(**content, model=model, sentences=sentences)
    places = [(each.start, each.end) for each in found[0].sentences]
    assert [text[start:end] for start, end in places] == ["A warm film.", "🎬 The plot is dull!"]
    assert (found[0].label, found[0].sentences[0].label) == (None, None)
    assert [prediction.windows for prediction in found] == [1, 3]


def test_attention_of_several(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "attentions", TEXTS, layers=[0], level="word", options=KEY)
    answers = as_json(running, "/attention", sentences=TEXTS, layer=[0], level="word")
    for attention, answer in zip(found, answers, strict=True):
        assert isinstance(attention, Attention)
        assert_holds(attention, answer)


def test_the_model(ask: Ask, running: RunningService) -> None:
    answer = as_json(running, "/model")
    found = ask(running.url, "model", options=KEY)
    metrics = (Metric("dev", 100, 0.8, (0.711, 0.867), 0.45, 0.03),)
    lists = {"labels": LABELS, "metrics": metrics, "methods": tuple(answer["methods"])}
    assert found == ModelInfo(**answer | lists)
    assert repr(found).startswith("ModelInfo('")
    assert len(repr(found)) < 200


STEP = {"layer": np.int64(0), "head": 1, "query": 1, "head_mask": [{"layer": 0}], "omit": [2]}


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("attention", {}),
        ("attention", {"layers": np.array([0]), "heads": (1, 0)}),
        ("attention", {"reduce": "max", "level": "word"}),
        ("attention", {"reduce": "rollout"}),
        ("attention", {"truncation": "window", "window": 1, "layers": [0], "heads": [0]}),
        ("thumbnails", {"size": np.int64(10), "special": False, "layers": [1], "heads": [0, 1]}),
        ("thumbnails", {"size": 48, "reduce": "mean", "level": "word", "omit": [2]}),
        ("thumbnails", {"size": 16, "truncation": "window", "window": 1}),
        ("attributions", {}),
        ("attributions", {"method": "gradient_x_input", "level": "word"}),
        ("attributions", {"label": LABELS[0], "steps": 3, "truncation": "left"}),
        ("attributions", {"method": "leave_out", "level": "sentence", "truncation": "window"}),
        ("importance", {"label": LABELS[1]}),
        ("attention_steps", STEP),
        ("attention_steps", {"layer": 1, "head": 1, "query": 0, "truncation": "window"}),
    ],
)
def test_an_explanation_holds_what_the_service_says(
    running: RunningService, method: str, named: Named
) -> None:
    is_long = method == "thumbnails" or "window" in named
    text = LONG if is_long else TEXTS[0]
    found = ask_client(running.url, method, text, options=KEY, **named)
    path = {"attention_steps": "/attention/steps", "thumbnails": "/attention"}
    answer = as_json(running, path.get(method, f"/{method}"), sentence=text, **to_json(named))
    assert_holds(found, answer, **({"values": "importance"} if method == "importance" else {}))


def test_a_bad_sentence_gets_an_error_in_its_place(ask: Ask, running: RunningService) -> None:
    texts = ["good", " ", None, "half \ud83c of a pair", "bad"]
    found = ask(running.url, "predict", texts, on_error="item", options=KEY)

    assert [type(each) for each in found] == [Prediction, *[ItemError] * 3, Prediction]
    assert found[1] == ItemError(
        type="invalid-request",
        status=422,
        title="The request is not valid",
        detail=f"sentences[1]: {BLANK}.",
        errors=(FieldError(("body", "sentences", 1), BLANK),),
    )
    assert found[2].errors[0].msg == "the item is not a string: send text"
    assert found[3].errors[0].loc == ("body", "sentences", 3)
    assert found[3].errors[0].msg.startswith("the text is not valid Unicode: lone surrogate at")
    assert [found[0], found[4]] == ask(running.url, "predict", ["good", "bad"], options=KEY)
    frame = found.to_dataframe()
    assert frame["error"].notna().tolist() == [False, True, True, True, False]


def test_a_bad_sentence_fails_the_request(running: RunningService) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ask_client(running.url, "predict", ["good", " "], options=KEY)
    error = caught.value
    assert str(error) == f"422 invalid-request: sentences[1]: {BLANK}."
    assert (error.type, error.status) == ("invalid-request", 422)
    assert error.title == "The request is not valid"
    assert error.errors == (FieldError(("body", "sentences", 1), BLANK),)
    assert error.retry_after is None
    assert len(error.request_id or "") == 32
