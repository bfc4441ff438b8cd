"""`POST /predict` with `abstain_below`: no label where the model is not sure enough."""

import httpx
import pytest

from tests.end_to_end.problems import error
from tests.end_to_end.test_predict import ask, random_sentences

SENTENCES = random_sentences(30, seed=11)


def test_only_predictions_below_the_threshold_lose_their_label(client: httpx.Client) -> None:
    plain = client.post("/predict", json={"sentences": SENTENCES}).json()["predictions"]
    scores = sorted({prediction["score"] for prediction in plain})
    below = scores[len(scores) // 2]  # the one with exactly this score keeps its label
    body = {"sentences": SENTENCES, "abstain_below": below}
    abstaining = client.post("/predict", json=body).json()["predictions"]
    expected = [
        {**prediction, "label": prediction["label"] if prediction["score"] >= below else None}
        for prediction in plain
    ]
    assert abstaining == expected
    assert [list(prediction) for prediction in abstaining] == [list(plain[0])] * len(SENTENCES)
    assert 0 < sum(prediction["label"] is None for prediction in abstaining) < len(SENTENCES)


@pytest.mark.parametrize("below", [None, 0, 0.0])
def test_nothing_is_below_nothing(client: httpx.Client, below: float | None) -> None:
    body = {"sentences": SENTENCES, "abstain_below": below}
    assert client.post("/predict", json=body).json()["predictions"] == ask(client, *SENTENCES)


def test_all_may_be_below(client: httpx.Client) -> None:
    body = {"sentences": SENTENCES, "abstain_below": 1}
    answer = client.post("/predict", json=body).json()["predictions"]
    assert {prediction["label"] for prediction in answer} == {None}


def test_a_bad_item_keeps_its_error(client: httpx.Client) -> None:
    body = {"sentences": ["good", " "], "abstain_below": 1, "on_error": "item"}
    unsure, blank = client.post("/predict", json=body).json()["predictions"]
    assert unsure["label"] is None
    assert list(blank) == ["error"]


@pytest.mark.parametrize(
    ("below", "message"),
    [
        (1.01, "must be at most 1, got 1.01"),
        (-0.5, "must be at least 0, got -0.5"),
        ("0.5", "must be a number, got a string"),
        (True, "must be a number, got true"),
        ([0.5], "must be a number, got a list"),
    ],
)
def test_another_threshold_is_refused(client: httpx.Client, below: object, message: str) -> None:
    response = client.post("/predict", json={"sentences": ["good"], "abstain_below": below})
    assert response.status_code == 422
    problem = response.json()
    assert problem["type"] == "/problems/invalid-request"
    assert problem["detail"] == f"body.abstain_below: {message}."
    assert problem["errors"] == [error("body", "abstain_below", msg=message)]
