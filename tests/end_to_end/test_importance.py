"""`GET /importance` and `POST /importance`."""

from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from model import load_predictor, open_checkpoint
from tests.builders import tiny_conv_checkpoint
from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService, service

SENTENCE = "The plot drags, but the cast is superb!"
LABELS = "the model has the labels negative, positive"
KNOWN = "an unknown field is given; known are sentence, truncation, label"


def test_an_answer_has_exactly_the_documented_form(
    client: httpx.Client, checkpoint_folder: Path
) -> None:
    response = client.get("/importance", params={"sentence": SENTENCE, "label": "negative"})
    assert response.status_code == 200
    answer = response.json()
    predicted = client.post("/predict", json={"sentences": [SENTENCE]}).json()
    assert list(answer) == [
        "model", "prediction", "view", "label", "layers", "heads", "importance",
    ]  # fmt: skip
    assert answer["model"] == predicted["model"]
    expected = predicted["predictions"][0]
    assert list(answer["prediction"]) == list(expected)
    assert answer["prediction"]["probabilities"] == pytest.approx(
        expected["probabilities"], abs=1e-5
    )
    assert (answer["view"], answer["label"]) == ("head_importance", "negative")
    assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
    predictor = load_predictor(
        open_checkpoint(checkpoint_folder), device=torch.device("cpu"), dtype=torch.float32
    )
    computed = predictor.gradients.head_importance(predictor.encode(SENTENCE), label="negative")
    found = np.array(answer["importance"])
    assert found.shape == (2, 2)
    assert found.min() >= 0
    assert found.max() > 0.01
    np.testing.assert_allclose(found, computed.importance, rtol=1e-4, atol=1e-6)


def test_get_and_post_agree_and_the_label_is_the_predicted_one(client: httpx.Client) -> None:
    body = {"sentence": SENTENCE, "truncation": "left"}
    asked = client.get("/importance", params=body).json()
    posted = client.post("/importance", json=body)
    assert posted.status_code == 200
    assert posted.json() == asked
    assert asked["label"] == asked["prediction"]["label"]


def test_it_is_one_pass(running: RunningService, client: httpx.Client) -> None:
    name = 'headlight_forward_seconds_count{path="gradient"}'
    before = running.metric(name), running.metric("headlight_tokens_total")
    assert client.get("/importance?sentence=a+good+film").status_code == 200
    after = running.metric(name), running.metric("headlight_tokens_total")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 5)


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        ({"sentence": "a", "label": "fair"}, ["body", "label"], LABELS),
        ({"sentence": "a", "steps": 3}, ["body"], KNOWN),
        ({"sentence": "a", "method": "gradient_x_input"}, ["body"], KNOWN),
    ],
)
def test_wrong_bodies(
    client: httpx.Client, body: dict[str, object], loc: list[str | int], message: str
) -> None:
    assert_problem(
        client.post("/importance", json=body),
        422,
        "invalid-request",
        "The request is not valid",
        f"{'.'.join(map(str, loc))}: {message}.",
        errors=[error(*loc, msg=message)],
    )


def test_wrong_queries(client: httpx.Client) -> None:
    for query, loc, message in (
        ("sentence=a&label=fair", ["query", "label"], LABELS),
        ("sentence=a&steps=3", ["query"], KNOWN.replace("field", "parameter")),
    ):
        assert_problem(
            client.get(f"/importance?{query}"),
            422,
            "invalid-request",
            "The request is not valid",
            f"{'.'.join(loc)}: {message}.",
            errors=[error(*loc, msg=message)],
        )


def test_the_classifier_of_the_course_has_one_layer(tmp_path: Path) -> None:
    folder = tiny_conv_checkpoint(tmp_path / "conv")
    with service(folder, tmp_path) as running, running.client() as client:
        answer = client.get("/importance", params={"sentence": "a good film"}).json()
    assert (answer["layers"], answer["heads"]) == ([0], [0, 1])
    assert np.array(answer["importance"]).shape == (1, 2)
    assert np.array(answer["importance"]).max() > 0
